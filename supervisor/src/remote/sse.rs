//! Parses server-sent events (WHATWG HTML, "Server-sent events"), of bounded size.

/// Longest event in bytes, including its lines: the end of a job tells its spec, which names thousands of files.
const MOST: usize = 16 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// Its number; 0 if it has none.
    pub id: u64,
    /// Its type; `message` if it names none.
    pub kind: String,
    /// Its data lines, joined by line feeds.
    pub data: String,
}

/// An event exceeds the bound.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {MOST} bytes")]
pub struct TooLong;

/// Parses a stream piece by piece.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return, so a line feed that follows belongs to it.
    returned: bool,
    event: ServerEvent,
    /// The event has at least one line of data.
    has_data: bool,
}

impl Parser {
    /// Takes bytes, cut anywhere, and returns the events that they complete.
    ///
    /// # Errors
    /// An event is too long.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<ServerEvent>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.returned, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.take(&String::from_utf8_lossy(&line)));
                }
                _ => self.line.push(byte),
            }
            if self.line.len() + self.event.data.len() + self.event.kind.len() > MOST {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    fn take(&mut self, line: &str) -> Option<ServerEvent> {
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            // The id holds until another one comes.
            self.event.id = event.id;
            if !std::mem::take(&mut self.has_data) {
                return None;
            }
            if event.kind.is_empty() {
                "message".clone_into(&mut event.kind);
            }
            return Some(event);
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.event.id = value.parse().unwrap_or(self.event.id),
            "event" => value.clone_into(&mut self.event.kind),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // A comment, `retry`, or a field of a later version.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, kind: &str, data: &str) -> ServerEvent {
        ServerEvent {
            id,
            kind: kind.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let text = "retry: 1000\nid: 1\nevent: state\ndata: {\"a\": 1}\n\n: a comment\n\n\
            id:2\r\ndata:x\r\ndata:\r\ndata: y\r\n\r\nevent: lost\n\ndata\n\nid: 7\ndata: half";
        let wanted = [
            event(1, "state", "{\"a\": 1}"),
            event(2, "message", "x\n\ny"),
            event(2, "message", ""),
        ];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let events: Vec<ServerEvent> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| parser.push(chunk).expect("short"))
                .collect();
            assert_eq!(events, wanted, "cut to {size}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut parser = Parser::default();
        let line = vec![b'x'; 1 << 20];
        let refused = (0..17).find_map(|_| parser.push(&line).err());
        assert_eq!(refused, Some(TooLong));
        let mut parser = Parser::default();
        let line = [b"data: ", line.as_slice(), b"\n"].concat();
        let refused = (0..17).find_map(|_| parser.push(&line).err());
        assert_eq!(refused, Some(TooLong));
    }
}
