//! Counts statements on the wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Engine;

/// Counts statements in what a client sends.
pub(crate) struct Meter {
    wire: Wire,
    /// The head of a message, as far as it has come.
    head: Vec<u8>,
    /// Bytes of the message's body still to come.
    skip: usize,
    statements: Arc<AtomicU64>,
}

enum Wire {
    /// Before PostgreSQL's typed messages.
    PostgresStart,
    Postgres,
    MySql,
}

impl Meter {
    pub(crate) fn new(engine: Engine, statements: Arc<AtomicU64>) -> Self {
        let wire = match engine {
            Engine::Postgres => Wire::PostgresStart,
            _ => Wire::MySql,
        };
        Self { wire, head: Vec::new(), skip: 0, statements }
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            bytes = rest;
            self.head.push(*first);
            if let Some(skip) = self.body() {
                self.skip = skip;
                self.head.clear();
            }
        }
    }

    /// The length of the body, once the head is complete.
    fn body(&mut self) -> Option<usize> {
        let size = |bytes: [u8; 4]| u32::from_be_bytes(bytes) as usize;
        match (&self.wire, self.head.as_slice()) {
            // length, then a code: a request for encryption comes before the real start
            (Wire::PostgresStart, &[a, b, c, d, code, _, _, _]) => {
                if code == 0 {
                    self.wire = Wire::Postgres;
                }
                Some(size([a, b, c, d]) - 8)
            }
            // type, then a length that counts itself: Query and Execute
            (Wire::Postgres, &[kind, a, b, c, d]) => {
                self.count(matches!(kind, b'Q' | b'E'));
                Some(size([a, b, c, d]) - 4)
            }
            // length, number within the exchange, command: COM_QUERY and COM_STMT_EXECUTE
            (Wire::MySql, &[0, 0, 0, _]) => Some(0),
            (Wire::MySql, &[a, b, c, number, command]) => {
                self.count(number == 0 && matches!(command, 0x03 | 0x17));
                Some(size([0, c, b, a]) - 1)
            }
            _ => None,
        }
    }

    fn count(&self, is_statement: bool) {
        self.statements.fetch_add(u64::from(is_statement), Ordering::Relaxed);
    }
}
