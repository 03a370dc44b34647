//! A fault and its text form: `once=-4@12`, `sticky=-2@3/vkAllocateMemory`, `hang@12`, `drop@7/vkCmdDispatch`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A fault: an action and the call that it hits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// What happens.
    pub action: Action,
    /// Number of the call, from 1, among all fallible commands; for [`Action::Drop`] among all droppable ones.
    pub nth: u64,
    /// If given, only the calls of this command count.
    pub command: Option<String>,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It fails, and later calls do not.
    Once(Error),
    /// It fails, and so does every counted call after it.
    Sticky(Error),
    /// It never returns.
    Hang,
    /// It does nothing. A submission is made without its commands and returns success, as by a driver that lies.
    Drop,
}

/// The errors that a failing driver returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Error {
    /// `VK_ERROR_OUT_OF_HOST_MEMORY`
    OutOfHostMemory = -1,
    /// `VK_ERROR_OUT_OF_DEVICE_MEMORY`
    OutOfDeviceMemory = -2,
    /// `VK_ERROR_DEVICE_LOST`
    DeviceLost = -4,
    /// `VK_ERROR_UNKNOWN`
    Unknown = -13,
}

impl Error {
    /// All errors.
    pub const ALL: [Self; 4] = [
        Self::OutOfHostMemory,
        Self::OutOfDeviceMemory,
        Self::DeviceLost,
        Self::Unknown,
    ];

    fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|error| *error as i32 == number)
    }
}

/// The text is not a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFault(String);

impl Display for BadFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no fault: once=CODE@N, sticky=CODE@N, hang@N or drop@N, then /vkCommand or nothing; CODE -1, -2, -4 or -13",
            self.0
        )
    }
}

impl std::error::Error for BadFault {}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Once(error) => write!(f, "once={}", error as i32)?,
            Action::Sticky(error) => write!(f, "sticky={}", error as i32)?,
            Action::Hang => f.write_str("hang")?,
            Action::Drop => f.write_str("drop")?,
        }
        write!(f, "@{}", self.nth)?;
        match &self.command {
            Some(command) => write!(f, "/{command}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Self, BadFault> {
        let parse = || {
            let (action, place) = text.split_once('@')?;
            let error = |number: &str| Error::from_number(number.parse().ok()?);
            let action = match action.split_once('=') {
                None if action == "hang" => Action::Hang,
                None if action == "drop" => Action::Drop,
                Some(("once", number)) => Action::Once(error(number)?),
                Some(("sticky", number)) => Action::Sticky(error(number)?),
                _ => return None,
            };
            let (nth, command) = match place.split_once('/') {
                Some((nth, command)) => (nth, Some(command)),
                None => (place, None),
            };
            let nth = nth.parse().ok().filter(|nth| *nth > 0)?;
            let known =
                |name: &str| crate::FALLIBLE.contains(&name) || crate::DROPPABLE.contains(&name);
            if !command.is_none_or(known) {
                return None;
            }
            Some(Self {
                action,
                nth,
                command: command.map(str::to_owned),
            })
        };
        parse().ok_or_else(|| BadFault(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_what_its_text_says() {
        for text in [
            "once=-4@12",
            "sticky=-13@3/vkAllocateMemory",
            "hang@1",
            "drop@7/vkCmdDispatch",
        ] {
            let fault: Fault = text.parse().expect(text);
            assert_eq!(fault.to_string(), text);
        }
        for text in [
            "",
            "once@3",
            "once=-3@3",
            "hang=-4@3",
            "hang@0",
            "hang@",
            "drop@1/vkNoSuchCommand",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
