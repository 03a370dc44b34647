// Counts one unit of work at the end of every submission, so that the loss of a submission without other work is
// detected too.

@compute @workgroup_size(1)
fn tick() {
    count_units(0u, 1u);
}
