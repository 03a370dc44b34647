//! The host reads from planes what it wrote, in however many pieces.

use super::super::memory::{
    Budget, Buffer, Maker, OnDevice, STORAGE, Staging, read_planes, write_planes,
};
use super::{Random, device};

#[test]
fn planes_are_read_as_they_were_written_whatever_their_pieces() {
    let Some(device) = device() else { return };
    let mut random = Random(7);
    // A piece holds 2 MiB of each plane: less than one piece, exactly one, and three with an odd end.
    for (count, halves) in [(5, 1), (1 << 19, 1), (5 * (1 << 18) + 77, 2)] {
        let budget = Budget::new(256 << 20, 64 << 20);
        let make = OnDevice::new(&device, &budget);
        let plane = || make.buffer("plane", count as u64 * 4, STORAGE).unwrap();
        let planes: [Buffer; 4] = std::array::from_fn(|_| plane());
        let planes = planes.each_ref();
        let staging = Staging::made(&make, 4, count * 4).unwrap();
        assert_eq!(staging.halves.len(), halves);
        for _ in 0..2 {
            let texels: Vec<[f32; 4]> = (0..count)
                .map(|_| std::array::from_fn(|_| random.next()))
                .collect();
            write_planes(&device, planes, &texels).unwrap();
            let read = read_planes(&device, &staging, planes, count).unwrap();
            assert!(read == texels, "{count} texels");
        }
    }
}
