//! Who may connect to the socket of `nearhead serve`: permissions, and a group by name or number.
//!
//! Names are looked up in `/etc/group` alone; a group that another directory service knows is given
//! by its number.

use nearhead_nbd::SocketAccess;
use nearhead_settings::ServeArgs;

/// Where groups have their names.
const GROUPS: &str = "/etc/group";

/// What `--socket-mode` and `--socket-group` ask for.
pub(super) fn socket_access(args: &ServeArgs) -> Result<SocketAccess, String> {
    let mode = args.socket_mode.map(|mode| mode.0);
    let group = args.socket_group.as_deref().map(number_of_group).transpose()?;
    if args.socket.is_none() && (mode.is_some() || group.is_some()) {
        return Err(
            "--socket-mode, --socket-group: expected --socket PATH with them, found none; \
                    a socket of the service manager has SocketMode= and SocketGroup= there"
                .to_owned(),
        );
    }
    Ok(SocketAccess { mode, group })
}

fn number_of_group(group: &str) -> Result<u32, String> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(GROUPS)
        .map_err(|error| format!("--socket-group {group}: {GROUPS}: {error}; give its number"))?;
    number_in(&text, group).ok_or_else(|| {
        format!(
            "--socket-group {group}: expected a group of {GROUPS} or a number, found no such group; \
             `getent group {group}` shows the number of one that is kept elsewhere"
        )
    })
}

/// The number of a group, from lines `name:password:number:members` (group(5)).
fn number_in(text: &str, group: &str) -> Option<u32> {
    let lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines
        .filter(|fields| fields.first() == Some(&group))
        .find_map(|fields| fields.get(2)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_name_and_by_number() {
        let text = "root:x:0:\n# comment\nkvm:x:106:ann,bob\nbroken\nkvmx:x:107:\n";
        assert_eq!(number_in(text, "kvm"), Some(106));
        assert_eq!(number_in(text, "root"), Some(0));
        assert_eq!(number_in(text, "broken"), None);
        assert_eq!(number_in(text, "ann"), None);
        assert_eq!(number_of_group("4711"), Ok(4711));
        let error = number_of_group("no such group").unwrap_err();
        assert!(error.contains("getent group"), "{error}");
    }

    #[test]
    fn access_without_a_socket_is_refused() {
        let args = ServeArgs { socket_group: Some("0".to_owned()), ..ServeArgs::default() };
        assert!(socket_access(&args).unwrap_err().contains("SocketGroup="));
        let args = ServeArgs { socket: Some("a.sock".into()), ..args };
        assert_eq!(socket_access(&args).unwrap().group, Some(0));
    }
}
