//! Small whole jobs: without a fault, with a death of each role, and with packets as bytes. Also triangle soups.

use proto::message::{FromChild, Phase, Role, Table};
use proto::wire;

use super::{Seed, packet};
use crate::targets::{Op, least};

pub(super) fn add(seeds: &mut Vec<Seed>) {
    let mut add = |name: &str, preview: bool, ops: &[Op]| {
        let mut bytes = vec![u8::from(preview)];
        ops.iter().for_each(|op| op.put(&mut bytes));
        seeds.push(("protocol", format!("made-{name}"), bytes));
    };
    let (prepare, bake, encode) = (prepare(), bake(), encode());
    add("plain", false, &[&prepare[..], &bake, &encode].concat());
    add("preview", true, &[&prepare[..], &bake, &encode].concat());
    // Bake has begun with the first prepare's mesh when that dies, and dies with it.
    let dies = [Role::Prepare, Role::Bake, Role::Encode].map(|role| [Op::Dies(role)]);
    let ops = [
        &prepare[..8],
        &bake[..1],
        &dies[0],
        &prepare,
        &bake,
        &encode,
    ];
    add("prepare-dies", false, &ops.concat());
    let coloured = [&bake[..1], &colours()].concat();
    let ops = [&prepare[..], &bake[..3], &dies[1], &coloured, &encode];
    add("bake-dies", false, &ops.concat());
    let ops = [&prepare[..], &bake, &encode[..1], &dies[2], &encode];
    add("encode-dies", true, &ops.concat());
    let [prepared, baked, encoded] = packet::summaries().map(|done| {
        let packet = wire::encode(&FromChild::Done(done));
        packet.expect("it fits")
    });
    let mut ops = prepare;
    ops.pop();
    ops.push(Op::Packet(Role::Prepare, prepared));
    ops.extend_from_slice(&bake[..3]);
    ops.push(Op::Packet(Role::Bake, baked));
    // The GLB and its read-back, and no preview.
    ops.extend_from_slice(&encode[..4]);
    ops.push(Op::Packet(Role::Encode, encoded));
    add("packets", false, &ops);

    // A tetrahedron on the grid, a fan of fractions, and numbers of every kind.
    let grid = [
        &[0, 8, 1][..],
        &[0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 3],
        &[0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3],
    ];
    seeds.push(("soup", "made-grid".to_owned(), grid.concat()));
    let mut slow = grid.concat();
    slow[0] = 224;
    seeds.push(("soup", "made-slow".to_owned(), slow));
    let mut fan = vec![1, 3, 4];
    for point in 0..7_i16 {
        fan.extend(
            [point * 97, 500 - point * point * 30, point * 11]
                .map(i16::to_le_bytes)
                .concat(),
        );
    }
    fan.extend((1..6_u8).flat_map(|corner| [0, corner, corner + 1]));
    seeds.push(("soup", "made-fan".to_owned(), fan));
    let mut any = vec![3, 15, 0];
    for x in [99.0, -1e-30, 0.5, -20.0, 70.0, -0.0, 3.5, 1e-12, 7.0_f32] {
        any.extend(x.to_le_bytes());
    }
    any.extend([0, 1, 2, 2, 1, 0, 0, 0, 1]);
    seeds.push(("soup", "made-any".to_owned(), any));
}

/// The smallest valid file.
fn file(table: Table) -> Option<&'static [u8]> {
    match table {
        Table::Glb => Some(b"glTF\x02\0\0\0\x18\0\0\0\x04\0\0\0JSON{}  "),
        Table::Preview => Some(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0IEND\xae\x42\x60\x82"),
        _ => None,
    }
}

fn put(ops: &mut Vec<Op>, role: Role, table: Table) {
    if let Some(file) = file(table) {
        ops.push(Op::Allocate(role, table, file.len() as u64 - least(table)));
        ops.push(Op::Write(table, file.to_vec()));
        ops.push(Op::Filled(role, table));
        let sha256 = [7; 32];
        let verified = wire::encode(&FromChild::Verified { table, sha256 });
        ops.push(Op::Packet(role, verified.expect("fits")));
        return;
    }
    ops.push(Op::Allocate(role, table, 0));
    if let Table::View(index) = table {
        ops.push(Op::WriteView {
            table: index as u8,
            index: index as u8,
            holdout: index == 1,
        });
    }
    ops.push(Op::Filled(role, table));
}

fn prepare() -> Vec<Op> {
    let mut ops = vec![
        Op::Open(Role::Prepare, false),
        Op::Opened(Role::Prepare),
        Op::Progress(Role::Prepare, Phase::LoadMesh, 1, 2),
    ];
    for table in [Table::Surface, Table::Mesh, Table::View(0), Table::View(1)] {
        put(&mut ops, Role::Prepare, table);
    }
    ops.push(Op::Delivered(Role::Prepare, 2));
    ops.push(Op::Done(Role::Prepare, 1, 1));
    ops
}

fn bake() -> Vec<Op> {
    let mut ops = vec![Op::Ready(Role::Bake)];
    put(&mut ops, Role::Bake, Table::Texture);
    put(&mut ops, Role::Bake, Table::Refined);
    ops.push(Op::Done(Role::Bake, 0, 0));
    ops
}

fn colours() -> Vec<Op> {
    let mut ops = Vec::new();
    put(&mut ops, Role::Bake, Table::Colours);
    ops.push(Op::Done(Role::Bake, 0, 0));
    ops
}

fn encode() -> Vec<Op> {
    let mut ops = Vec::new();
    put(&mut ops, Role::Encode, Table::Glb);
    put(&mut ops, Role::Encode, Table::Preview);
    ops.push(Op::Done(Role::Encode, 0, 0));
    ops
}
