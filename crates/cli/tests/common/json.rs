//! JSON as strict readers take it: an object that has a key twice is refused.
//!
//! RFC 8259, section 4, leaves open which of the two a reader sees; `serde_json` keeps the last one and says nothing, so a test that reads with it
//! cannot notice. What the program prints is read with this.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The one value in `text`.
pub fn parse(text: impl AsRef<[u8]>) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(text.as_ref());
    let value = Strict.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON without a key that is there twice")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut found: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = found.next_element_seed(Strict)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut found: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = found.next_key::<String>()? {
            if values.contains_key(&key) {
                return Err(de::Error::custom(format!("the key {key:?} is there twice")));
            }
            values.insert(key, found.next_value_seed(Strict)?);
        }
        Ok(Value::Object(values))
    }
}
