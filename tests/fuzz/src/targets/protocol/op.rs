//! Decodes bytes into a child's next action, and encodes actions for seeds.

use arbitrary::{Result, Unstructured};
use proto::message::{Phase, Role, Table};
use proto::table::Layer;

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sends a packet of these bytes.
    Packet(Role, Vec<u8>),
    /// Asks for the table's smallest size plus `more`.
    Allocate(Role, Table, u64),
    /// Writes the header of a one-pixel view to a view's memory.
    WriteView {
        /// The view whose memory is written.
        table: u8,
        /// The view's number in the header.
        index: u8,
        /// Whether the view is held out.
        holdout: bool,
    },
    /// Writes any bytes to a table's memory.
    Write(Table, Vec<u8>),
    /// Reports a table as written.
    Filled(Role, Table),
    /// Reports the end; the numbers are prepare's views for the fit and held out.
    Done(Role, u8, u8),
    /// Reports a count.
    Progress(Role, Phase, u64, u64),
    /// Reports that the adapter is open.
    Ready(Role),
    /// Asks for a file in the mesh's or the views' folder.
    Open(Role, bool),
    /// The requested file was opened or refused.
    Opened(Role),
    /// Ends without an answer.
    Dies(Role),
    /// Reports the total number of views.
    Delivered(Role, u8),
}

const ROLES: [Role; 3] = [Role::Prepare, Role::Bake, Role::Encode];
const PHASES: [Phase; 4] = [Phase::LoadMesh, Phase::DecodeViews, Phase::Fit, Phase::Png];

impl Op {
    /// Decodes the next action.
    ///
    /// # Errors
    /// The bytes are used up.
    pub fn take(bytes: &mut Unstructured<'_>) -> Result<Self> {
        if bytes.is_empty() {
            return Err(arbitrary::Error::NotEnoughData);
        }
        let kind: u8 = bytes.arbitrary()?;
        Ok(match kind % 12 {
            0 => Self::Packet(role(bytes)?, blob(bytes)?),
            1 => Self::Allocate(role(bytes)?, table(bytes)?, number(bytes)?),
            2 => Self::WriteView {
                table: bytes.arbitrary()?,
                index: bytes.arbitrary()?,
                holdout: bytes.arbitrary::<u8>()? % 2 == 1,
            },
            3 => Self::Write(table(bytes)?, blob(bytes)?),
            4 => Self::Filled(role(bytes)?, table(bytes)?),
            5 => Self::Done(role(bytes)?, bytes.arbitrary()?, bytes.arbitrary()?),
            6 => Self::Progress(
                role(bytes)?,
                PHASES[usize::from(bytes.arbitrary::<u8>()?) % PHASES.len()],
                number(bytes)?,
                number(bytes)?,
            ),
            7 => Self::Ready(role(bytes)?),
            8 => Self::Open(role(bytes)?, bytes.arbitrary::<u8>()? % 2 == 1),
            9 => Self::Opened(role(bytes)?),
            10 => Self::Dies(role(bytes)?),
            _ => Self::Delivered(role(bytes)?, bytes.arbitrary()?),
        })
    }

    /// Encodes the action for [`Self::take`].
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Packet(role, bytes) => {
                out.extend([0, *role as u8]);
                put_blob(bytes, out);
            }
            Self::Allocate(role, table, more) => {
                out.extend([1, *role as u8]);
                put_table(*table, out);
                put_number(*more, out);
            }
            Self::WriteView {
                table,
                index,
                holdout,
            } => out.extend([2, *table, *index, u8::from(*holdout)]),
            Self::Write(table, bytes) => {
                out.push(3);
                put_table(*table, out);
                put_blob(bytes, out);
            }
            Self::Filled(role, table) => {
                out.extend([4, *role as u8]);
                put_table(*table, out);
            }
            Self::Done(role, fit, holdout) => out.extend([5, *role as u8, *fit, *holdout]),
            Self::Progress(role, phase, done, total) => {
                let phase = PHASES.iter().position(|known| known == phase);
                out.extend([6, *role as u8, phase.unwrap_or(0) as u8]);
                put_number(*done, out);
                put_number(*total, out);
            }
            Self::Ready(role) => out.extend([7, *role as u8]),
            Self::Open(role, views) => out.extend([8, *role as u8, u8::from(*views)]),
            Self::Opened(role) => out.extend([9, *role as u8]),
            Self::Dies(role) => out.extend([10, *role as u8]),
            Self::Delivered(role, views) => out.extend([11, *role as u8, *views]),
        }
    }
}

fn role(bytes: &mut Unstructured<'_>) -> Result<Role> {
    Ok(ROLES[usize::from(bytes.arbitrary::<u8>()?) % 3])
}

fn table(bytes: &mut Unstructured<'_>) -> Result<Table> {
    Ok(match bytes.arbitrary::<u8>()? % 18 {
        0 => Table::Mesh,
        1 => Table::Surface,
        2 => Table::View(u32::from(bytes.arbitrary::<u8>()?)),
        3 => Table::Texture,
        4 => Table::Glb,
        5 => Table::Preview,
        6 => Table::Colours,
        7 => Table::Coverage,
        8 => Table::Residual,
        9 => Table::Picture(u32::from(bytes.arbitrary::<u8>()?)),
        10 => Table::Material,
        11 => Table::Provenance,
        12 => Table::Rejected(u32::from(bytes.arbitrary::<u8>()?)),
        14 => Table::Pipelines,
        15 => Table::Refined,
        16 => Table::Splats,
        17 => Table::Gallery,
        _ => Table::Layer(Layer::ALL[usize::from(bytes.arbitrary::<u8>()?) % Layer::ALL.len()]),
    })
}

fn put_table(table: Table, out: &mut Vec<u8>) {
    match table {
        Table::Mesh => out.push(0),
        Table::Surface => out.push(1),
        Table::View(index) => out.extend([2, index as u8]),
        Table::Texture => out.push(3),
        Table::Glb => out.push(4),
        Table::Preview => out.push(5),
        Table::Colours => out.push(6),
        Table::Coverage => out.push(7),
        Table::Residual => out.push(8),
        Table::Picture(page) => out.extend([9, page as u8]),
        Table::Material => out.push(10),
        Table::Provenance => out.push(11),
        Table::Rejected(index) => out.extend([12, index as u8]),
        Table::Layer(layer) => out.extend([13, layer as u8]),
        Table::Pipelines => out.push(14),
        Table::Refined => out.push(15),
        Table::Splats => out.push(16),
        Table::Gallery => out.push(17),
    }
}

/// A small number in one byte, or any number.
fn number(bytes: &mut Unstructured<'_>) -> Result<u64> {
    match bytes.arbitrary::<u8>()? {
        255 => bytes.arbitrary(),
        small => Ok(u64::from(small)),
    }
}

fn put_number(number: u64, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(small) if small < 255 => out.push(small),
        _ => {
            out.push(255);
            out.extend(number.to_le_bytes());
        }
    }
}

fn blob(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let size = usize::from(bytes.arbitrary::<u8>()?).min(bytes.len());
    Ok(bytes.bytes(size)?.to_vec())
}

fn put_blob(bytes: &[u8], out: &mut Vec<u8>) {
    let size = bytes.len().min(255);
    out.push(size as u8);
    out.extend(&bytes[..size]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken() {
        let ops = [
            Op::Packet(Role::Encode, vec![1, 2]),
            Op::Allocate(Role::Prepare, Table::View(7), 1 << 40),
            Op::WriteView {
                table: 3,
                index: 4,
                holdout: true,
            },
            Op::Write(Table::Texture, b"abc".to_vec()),
            Op::Filled(Role::Bake, Table::Preview),
            Op::Done(Role::Bake, 5, 6),
            Op::Progress(Role::Prepare, Phase::Fit, 9, u64::MAX),
            Op::Ready(Role::Bake),
            Op::Open(Role::Prepare, true),
            Op::Opened(Role::Prepare),
            Op::Write(Table::Colours, Vec::new()),
            Op::Filled(Role::Encode, Table::Coverage),
            Op::Filled(Role::Encode, Table::Residual),
            Op::Filled(Role::Encode, Table::Material),
            Op::Filled(Role::Encode, Table::Picture(3)),
            Op::Filled(Role::Encode, Table::Provenance),
            Op::Filled(Role::Bake, Table::Rejected(7)),
            Op::Filled(Role::Bake, Table::Refined),
            Op::Dies(Role::Encode),
            Op::Delivered(Role::Prepare, 7),
        ];
        let mut bytes = Vec::new();
        ops.iter().for_each(|op| op.put(&mut bytes));
        let mut rest = Unstructured::new(&bytes);
        for op in ops {
            assert_eq!(Op::take(&mut rest), Ok(op));
        }
        assert!(rest.is_empty());
    }
}
