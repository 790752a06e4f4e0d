//! The syntax of the packages: sections of `key = value`, lists, and files that include others.
//!
//! ```text
//! dm_disk NAME {                      a section: kind, name (may be missing), fields
//!    Number of data surfaces = 13,    keys have blanks; a comma may be missing at a line's end
//!    Layout Model = dm_layout_g1 {    a section as a value
//!       slips = [ 468, 526 ]          a list
//!    },
//!    Model = source other.model       the first section of another file as a value
//! }                                   comments run from # to the end of the line
//! ```
//!
//! `instantiate` and `topology` say how DiskSim connects components: only what is made of which
//! section is kept of them. A file that is included beside the others and is not there is kept as
//! missing: statistics and generators are no part of a drive. Nothing here knows what a key means; depth, inclusion and sizes are bounded.

use super::ImportError;
use super::files::Folder;
use std::fmt;
use std::rc::Rc;

/// Deepest nesting of values, and of files that include others.
const DEPTH_MAX: usize = 24;

/// File and line.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) file: Rc<str>,
    pub(super) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) place: Place,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// A number, a word or a file name.
    Word(String),
    List(Vec<Value>),
    Section(Box<Section>),
    /// A file that is not there.
    Missing(String),
}

impl Content {
    fn what(&self) -> String {
        match self {
            Self::Word(word) => format!("{word:?}"),
            Self::List(items) => format!("a list of {}", items.len()),
            Self::Section(section) => format!("a section {}", section.kind),
            Self::Missing(file) => format!("source {file}, a file that is not there"),
        }
    }
}

/// A section.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) place: Place,
    fields: Vec<(String, Value)>,
}

impl Section {
    /// The value of `key`, if there. Of several the last one counts, as in DiskSim.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let wanted = normal(key);
        self.fields.iter().rev().find(|(known, _)| *known == wanted).map(|(_, value)| value)
    }

    /// The value of `key`; the error lists what there is instead.
    pub(super) fn need(&self, key: &str) -> Result<&Value, ImportError> {
        self.get(key).ok_or_else(|| {
            let known: Vec<&str> = self.fields.iter().map(|(key, _)| key.as_str()).collect();
            ImportError::new(
                &self.place,
                format!(
                    "section {} {} has no {key:?}; it has {}",
                    self.kind,
                    self.name,
                    known.join(", ")
                ),
            )
        })
    }

    /// A number that must be there.
    pub(super) fn number(&self, key: &str) -> Result<f64, ImportError> {
        self.need(key)?.number(key)
    }

    /// A number, or `default` if it is not there.
    pub(super) fn number_or(&self, key: &str, default: f64) -> Result<f64, ImportError> {
        self.get(key).map_or(Ok(default), |value| value.number(key))
    }

    /// A whole number that must be there.
    pub(super) fn whole(&self, key: &str) -> Result<u64, ImportError> {
        self.need(key)?.whole(key)
    }

    /// A whole number, or `default` if it is not there.
    pub(super) fn whole_or(&self, key: &str, default: u64) -> Result<u64, ImportError> {
        self.get(key).map_or(Ok(default), |value| value.whole(key))
    }

    /// The items of a list, none if it is not there.
    pub(super) fn list(&self, key: &str) -> Result<&[Value], ImportError> {
        self.get(key).map_or(Ok(&[]), |value| value.list(key))
    }
}

impl Value {
    fn expected(&self, key: &str, what: &str) -> ImportError {
        let hint = match &self.content {
            Content::Missing(file) => format!("; put {file} (or {file}.zst) into the folder"),
            _ => String::new(),
        };
        ImportError::new(
            &self.place,
            format!("{key:?}: expected {what}, found {}{hint}", self.content.what()),
        )
    }

    /// The word that this value is.
    pub(super) fn word(&self, key: &str) -> Result<&str, ImportError> {
        match &self.content {
            Content::Word(word) => Ok(word),
            _ => Err(self.expected(key, "a word")),
        }
    }

    /// The number that this value is.
    pub(super) fn number(&self, key: &str) -> Result<f64, ImportError> {
        let number = match &self.content {
            Content::Word(word) => word.parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        number.ok_or_else(|| self.expected(key, "a number"))
    }

    /// The whole number that this value is; `2.000` is one.
    pub(super) fn whole(&self, key: &str) -> Result<u64, ImportError> {
        let number = match &self.content {
            Content::Word(word) => word.parse::<u64>().ok().or_else(|| {
                let float = word.parse::<f64>().ok()?;
                ((0.0..9e15).contains(&float) && float.fract() == 0.0).then_some(float as u64)
            }),
            _ => None,
        };
        number.ok_or_else(|| self.expected(key, "a whole number from 0"))
    }

    /// The items of the list that this value is.
    pub(super) fn list(&self, key: &str) -> Result<&[Value], ImportError> {
        match &self.content {
            Content::List(items) => Ok(items),
            _ => Err(self.expected(key, "a list in [ ]")),
        }
    }

    /// The section that this value is.
    pub(super) fn section(&self, key: &str) -> Result<&Section, ImportError> {
        match &self.content {
            Content::Section(section) => Ok(section),
            _ => Err(self.expected(key, "a section in { }")),
        }
    }
}

/// The sections of all files read so far.
#[derive(Debug, Default)]
pub(super) struct Sections {
    list: Vec<Section>,
    /// Files that were to be read beside the others and are not there.
    missing: Vec<(Place, String)>,
    /// What is made of sections: `instantiate [ disk0 ] as NAME`.
    instantiated: Vec<String>,
}

impl Sections {
    pub(super) fn all(&self) -> impl Iterator<Item = &Section> {
        self.list.iter()
    }

    /// Files that were to be read beside the others and are not there: where, and what to do.
    pub(super) fn missing(&self) -> impl Iterator<Item = (&Place, String)> {
        self.missing.iter().map(|(place, file)| (place, missing(file)))
    }

    /// Whether anything is made of the section called `name`.
    pub(super) fn instantiates(&self, name: &str) -> bool {
        self.instantiated.iter().any(|known| known == name)
    }

    /// The sections of a kind.
    pub(super) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Section> {
        self.list.iter().filter(move |section| section.kind == kind)
    }
}

/// Adds the sections of `text`, which is `file` of `folder`, and of files that it includes.
pub(super) fn parse_into(
    sections: &mut Sections,
    folder: &Folder,
    file: &str,
    text: &str,
    depth: usize,
) -> Result<(), ImportError> {
    let mut parser = Parser { folder, file: Rc::from(file), text, at: 0, line: 1, depth };
    while parser.skip_blanks() {
        let place = parser.place();
        if matches!(parser.peek(), Some(b',' | b';')) {
            parser.advance();
            continue;
        }
        let words = parser.take_until(|next| matches!(next, b'{' | b'[' | b'\n'));
        let mut words = words.split_whitespace();
        let (kind, rest) = (words.next().unwrap_or(""), words.collect::<Vec<_>>().join(" "));
        match (kind, parser.peek()) {
            ("source", _) => {
                let included = parser.included(&rest, &place)?;
                match included {
                    Some(text) => parse_into(sections, folder, &rest, &text, depth + 1)?,
                    None => sections.missing.push((place, rest)),
                }
            }
            ("instantiate" | "topology", _) => {
                let after = parser.skip_brackets();
                let name = after.strip_prefix("as").filter(|name| name.starts_with([' ', '\t']));
                sections.instantiated.extend(name.map(|name| name.trim().to_owned()));
            }
            (_, Some(b'{')) if !kind.is_empty() => {
                let section = parser.section(kind.to_owned(), rest, place)?;
                sections.list.push(section);
            }
            _ => {
                return Err(ImportError::new(
                    place,
                    format!(
                        "expected a section `kind NAME {{ ... }}`, found {:?}",
                        format!("{kind} {rest}").trim()
                    ),
                ));
            }
        }
    }
    Ok(())
}

fn missing(file: &str) -> String {
    format!("source {file}: no such file in the package's folder; put {file} (or {file}.zst) there")
}

/// Keys are compared without regard to case and blanks.
fn normal(key: &str) -> String {
    key.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase()
}

struct Parser<'a> {
    folder: &'a Folder,
    file: Rc<str>,
    text: &'a str,
    at: usize,
    line: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn place(&self) -> Place {
        Place { file: Rc::clone(&self.file), line: self.line }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn advance(&mut self) {
        if self.peek() == Some(b'\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    /// Passes blanks and comments; says whether anything follows.
    fn skip_blanks(&mut self) -> bool {
        while let Some(next) = self.peek() {
            match next {
                b'#' => {
                    while self.peek().is_some_and(|next| next != b'\n') {
                        self.advance();
                    }
                }
                _ if next.is_ascii_whitespace() => self.advance(),
                _ => return true,
            }
        }
        false
    }

    /// The text up to where `stops` says so, a comment or the end.
    fn take_until(&mut self, stops: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(|next| next != b'#' && !stops(next)) {
            self.advance();
        }
        // All stops are ASCII, so this cuts between characters.
        self.text.get(start..self.at).unwrap_or("").trim()
    }

    /// Passes everything up to the end of balanced brackets; gives the rest of the line after them.
    fn skip_brackets(&mut self) -> &'a str {
        let mut open = 0_usize;
        let mut seen = false;
        while self.skip_blanks() {
            match self.peek() {
                Some(b'[') => (open, seen) = (open + 1, true),
                Some(b']') => open = open.saturating_sub(1),
                _ => {}
            }
            self.advance();
            if seen && open == 0 {
                return self.take_until(|next| next == b'\n');
            }
        }
        ""
    }

    /// Fields up to the closing brace; the parser stands before the opening one.
    fn section(
        &mut self,
        kind: String,
        name: String,
        place: Place,
    ) -> Result<Section, ImportError> {
        self.descend()?;
        self.advance();
        let mut fields = Vec::new();
        loop {
            if !self.skip_blanks() {
                return Err(ImportError::new(
                    &place,
                    format!(
                        "section {kind} {name} is not closed: expected }}, found the end of the file"
                    ),
                ));
            }
            match self.peek() {
                Some(b'}') => {
                    self.advance();
                    self.depth -= 1;
                    return Ok(Section { kind, name, place, fields });
                }
                Some(b',' | b';') => self.advance(),
                _ => {
                    let at = self.place();
                    let key = self.take_until(|next| matches!(next, b'=' | b'}' | b'{' | b','));
                    if self.peek() != Some(b'=') || key.is_empty() {
                        return Err(ImportError::new(
                            at,
                            format!("expected `key = value`, found {key:?}"),
                        ));
                    }
                    self.advance();
                    let value = self.value(key)?;
                    fields.push((normal(key), value));
                }
            }
        }
    }

    fn descend(&mut self) -> Result<(), ImportError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let problem = format!("expected at most {DEPTH_MAX} levels of sections and files");
            return Err(ImportError::new(self.place(), problem));
        }
        Ok(())
    }

    fn value(&mut self, key: &str) -> Result<Value, ImportError> {
        if !self.skip_blanks() {
            let problem = format!("{key:?}: expected a value, found the end of the file");
            return Err(ImportError::new(self.place(), problem));
        }
        let place = self.place();
        if self.peek() == Some(b'[') {
            let content = Content::List(self.items(&place, key)?);
            return Ok(Value { place, content });
        }
        let word = self.take_until(|next| matches!(next, b',' | b'}' | b']' | b'{' | b'\n' | b'='));
        let (at, line) = (self.at, self.line);
        let is_section = self.skip_blanks() && self.peek() == Some(b'{') && !word.is_empty();
        if is_section {
            let (kind, name) = word.split_once(char::is_whitespace).unwrap_or((word, ""));
            let section = self.section(kind.to_owned(), name.trim().to_owned(), place.clone())?;
            return Ok(Value { place, content: Content::Section(Box::new(section)) });
        }
        (self.at, self.line) = (at, line);
        if let Some(file) = word.strip_prefix("source").filter(|rest| rest.starts_with([' ', '\t']))
        {
            return self.source(file.trim(), place);
        }
        if word.is_empty() {
            let found =
                self.peek().map_or("the end".to_owned(), |next| format!("{:?}", next as char));
            let problem = format!("{key:?}: expected a value, found {found}");
            return Err(ImportError::new(place, problem));
        }
        Ok(Value { place, content: Content::Word(word.to_owned()) })
    }

    fn items(&mut self, opened: &Place, key: &str) -> Result<Vec<Value>, ImportError> {
        self.descend()?;
        self.advance();
        let mut items = Vec::new();
        loop {
            if !self.skip_blanks() {
                return Err(ImportError::new(
                    opened,
                    format!(
                        "{key:?}: the list is not closed: expected ], found the end of the file"
                    ),
                ));
            }
            match self.peek() {
                Some(b']') => {
                    self.advance();
                    self.depth -= 1;
                    return Ok(items);
                }
                Some(b',') => self.advance(),
                Some(b'=') => {
                    let problem = format!("{key:?}: expected , or ] in a list, found =");
                    return Err(ImportError::new(self.place(), problem));
                }
                _ => {
                    let item = self.value(key)?;
                    match &item.content {
                        // Items without commas between them.
                        Content::Word(words) if words.contains(char::is_whitespace) => {
                            items.extend(words.split_whitespace().map(|word| Value {
                                place: item.place.clone(),
                                content: Content::Word(word.to_owned()),
                            }));
                        }
                        _ => items.push(item),
                    }
                }
            }
        }
    }

    /// The first section of an included file; a missing file only matters to whoever needs it.
    fn source(&mut self, file: &str, place: Place) -> Result<Value, ImportError> {
        let Some(text) = self.included(file, &place)? else {
            return Ok(Value { place, content: Content::Missing(file.to_owned()) });
        };
        let mut sections = Sections::default();
        parse_into(&mut sections, self.folder, file, &text, self.depth + 1)?;
        // A model file may state its layout before the drive.
        let drive = sections.list.iter().position(|section| section.kind == "dm_disk");
        let Some(first) = sections.list.into_iter().nth(drive.unwrap_or(0)) else {
            return Err(ImportError::new(place, format!("source {file}: the file has no section")));
        };
        Ok(Value { place, content: Content::Section(Box::new(first)) })
    }

    fn included(&self, file: &str, place: &Place) -> Result<Option<String>, ImportError> {
        if self.depth >= DEPTH_MAX {
            let problem =
                format!("source {file}: expected at most {DEPTH_MAX} files in each other");
            return Err(ImportError::new(place, problem));
        }
        self.folder.read(file)
    }
}
