//! Who is encrypted to, and what is said of that: `--tls-cert` and its like, `--tls-psk`, warnings, URIs.

use super::Served;
use crate::uri;
use nearhead_nbd::{Server, TlsFiles, TlsKeys, TlsMode};
use nearhead_output::note;
use nearhead_settings::ServeArgs;
use std::net::SocketAddr;

/// What clients and server are known to each other by, and whether clients may do without.
pub(super) fn tls(args: &ServeArgs) -> Result<Option<(TlsMode, TlsKeys)>, String> {
    let certificates = [&args.tls_cert, &args.tls_key, &args.tls_clients];
    let some_certificates = certificates.iter().any(|file| file.is_some());
    let keys = match (&args.tls_psk, &args.tls_cert, &args.tls_key) {
        (None, ..) if !some_certificates && !args.tls_optional => return Ok(None),
        (None, ..) if !some_certificates => {
            return Err("serve: TLS: expected --tls-cert and --tls-key, or --tls-psk, with --tls-optional, found \
                        none of them; say what clients and server are known to each other by, or leave it out"
                .to_owned());
        }
        (Some(keys), ..) if !some_certificates => TlsKeys::Shared(keys.clone()),
        (Some(_), ..) => {
            return Err("serve: TLS: expected certificates (--tls-cert, --tls-key, --tls-clients) or shared keys \
                        (--tls-psk), found both; leave one out, or serve the volume for one kind of client"
                .to_owned());
        }
        (None, Some(certificate), Some(key)) => TlsKeys::Certificates(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authority: args.tls_clients.clone(),
        }),
        _ => {
            return Err(
                "serve: TLS: expected both --tls-cert and --tls-key, found only part of them"
                    .to_owned(),
            );
        }
    };
    let mode = if args.tls_optional { TlsMode::Optional } else { TlsMode::Required };
    Ok(Some((mode, keys)))
}

/// Whether nobody comes in without encryption.
fn is_required(args: &ServeArgs) -> bool {
    (args.tls_cert.is_some() || args.tls_psk.is_some()) && !args.tls_optional
}

/// Says who may come in where everybody in reach may.
pub(super) fn warn_if_open(args: &ServeArgs, server: &Server<'_, Served>) {
    if is_required(args) {
        return;
    }
    for address in server.addresses().iter().filter(|address| !address.ip().is_loopback()) {
        let place = if address.ip().is_unspecified() {
            "on every network of this machine".to_owned()
        } else {
            format!("on the network of {}", address.ip())
        };
        note(&format!(
            "warning: TCP port {} is open {place} without encryption: whoever can connect reads and writes the \
             whole volume; listen on 127.0.0.1, or give --tls-psk, or --tls-cert, --tls-key and --tls-clients",
            address.port()
        ));
    }
}

/// Where clients connect, in the form every NBD client takes. With shared keys whoever connects puts the user
/// before the host: `nbds://USER@HOST/`.
pub(super) fn uris(args: &ServeArgs, server: &Server<'_, Served>) -> Vec<String> {
    let secure = if is_required(args) { "nbds" } else { "nbd" };
    let keys = args.tls_psk.as_ref().filter(|_| is_required(args));
    let keys = keys.map(|path| uri::parameter("tls-psk-file", path));
    let export = args.export.first().map_or("", String::as_str);
    let mut uris = Vec::new();
    if let Some(path) = &args.socket {
        let keys = keys.as_ref().map(|keys| format!("&{keys}")).unwrap_or_default();
        uris.push(uri::of_socket(secure, export, path) + &keys);
    }
    let keys = keys.map(|keys| format!("?{keys}")).unwrap_or_default();
    let of_address =
        |address: &SocketAddr| uri::of_address(secure, export, &format!("{address}")) + &keys;
    uris.extend(server.addresses().iter().map(of_address));
    if uris.is_empty() && std::env::var_os("LISTEN_FDS").is_some() {
        uris.push("the socket of the service manager".to_owned());
    }
    uris
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_is_asked_for_and_what_does_not_is_refused() {
        let some = |text: &str| Some(text.into());
        let none = ServeArgs::default();
        assert_eq!(tls(&none), Ok(None));
        let shared = ServeArgs { tls_psk: some("k"), ..none.clone() };
        assert_eq!(tls(&shared), Ok(Some((TlsMode::Required, TlsKeys::Shared("k".into())))));
        let optional = ServeArgs { tls_optional: true, ..shared.clone() };
        assert!(matches!(tls(&optional), Ok(Some((TlsMode::Optional, _)))));
        for (args, expected) in [
            (
                ServeArgs { tls_optional: true, ..none.clone() },
                "--tls-psk, with --tls-optional, found none",
            ),
            (ServeArgs { tls_cert: some("c"), ..shared.clone() }, "found both; leave one out"),
            (ServeArgs { tls_clients: some("a"), ..shared }, "found both; leave one out"),
            (ServeArgs { tls_key: some("c"), ..none }, "expected both --tls-cert and --tls-key"),
        ] {
            let error = tls(&args).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
