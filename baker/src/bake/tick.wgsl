// One unit of work at the end of every submission: a submission without any other is missed as well.

@compute @workgroup_size(1)
fn tick() {
    count_units(0u, 1u);
}
