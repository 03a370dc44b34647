//! A packet in either direction: refused in bounded memory, or decoded and re-encoded as the same message.

use proto::message::{FromChild, ToChild};
use proto::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::heap;

/// Memory of decoding: a list's element takes up to twice its packed size, and lists grow by doubling.
const DECODING_BYTES: usize = 4 * proto::limits::MAX_PACKET_BYTES;

/// Input: one packet.
pub fn packet(bytes: &[u8]) -> bool {
    let down = both_ways::<ToChild>(bytes);
    let up = both_ways::<FromChild>(bytes);
    down || up
}

fn both_ways<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> bool {
    let decoded = heap::within(DECODING_BYTES, "decoding a packet", || {
        wire::decode::<T>(bytes)
    });
    let Ok(message) = decoded else {
        return false;
    };
    // A longer encoding of a number also decodes, so the bytes may differ once, and NaN differs from itself. After one
    // round the bytes identify the message.
    let written = wire::encode(&message).expect("what fitted a packet fits again");
    assert!(written.len() <= bytes.len(), "the shortest form is written");
    let again: T = wire::decode(&written).expect("its own bytes decode");
    assert_eq!(
        wire::encode(&again).expect("it fits"),
        written,
        "a round changes nothing"
    );
    let mut longer = written;
    longer.push(0);
    assert!(wire::decode::<T>(&longer).is_err(), "nothing may follow");
    true
}
