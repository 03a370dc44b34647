//! Encodes messages and decodes them; the only file that knows bincode. Decoding is limited to [`MAX_PACKET_BYTES`], so
//! a length in a hostile packet never sizes an allocation. Bytes left over after a message are an error.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::MAX_PACKET_BYTES;

/// Why a message cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The message does not fit a packet.
    #[error("message of {0} bytes is larger than a packet ({MAX_PACKET_BYTES} bytes)")]
    TooLarge(usize),
    /// The bytes are not a message.
    #[error("packet does not decode")]
    Decode(#[source] Box<bincode::error::DecodeError>),
    /// The message cannot be encoded.
    #[error("message does not encode")]
    Encode(#[source] Box<bincode::error::EncodeError>),
    /// Bytes follow the message.
    #[error("{0} bytes follow the message in its packet")]
    Trailing(usize),
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_PACKET_BYTES>()
}

/// Encodes a message as one packet.
///
/// # Errors
/// [`WireError::TooLarge`] beyond [`MAX_PACKET_BYTES`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    let bytes = bincode::serde::encode_to_vec(message, config())
        .map_err(|error| WireError::Encode(Box::new(error)))?;
    if bytes.len() > MAX_PACKET_BYTES {
        return Err(WireError::TooLarge(bytes.len()));
    }
    Ok(bytes)
}

/// Decodes the message of one packet.
///
/// # Errors
/// The packet is not exactly one message.
pub fn decode<T: DeserializeOwned>(packet: &[u8]) -> Result<T, WireError> {
    let (message, used) = bincode::serde::decode_from_slice(packet, config())
        .map_err(|error| WireError::Decode(Box::new(error)))?;
    if used != packet.len() {
        return Err(WireError::Trailing(packet.len() - used));
    }
    Ok(message)
}
