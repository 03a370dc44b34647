//! `kiln-baker doctor` prints what the bake role finds on this machine as one line of JSON on standard output. It is a
//! process of its own because a broken driver may crash it.

use serde_json::{Value, json};

use crate::bake::gpu::device::adapters;

/// Features worth listing; none is required.
const FEATURES: [(wgpu::Features, &str); 4] = [
    (wgpu::Features::TIMESTAMP_QUERY, "timestamp_query"),
    (wgpu::Features::SHADER_F16, "shader_f16"),
    (wgpu::Features::SUBGROUP, "subgroup"),
    (
        wgpu::Features::SHADER_FLOAT32_ATOMIC,
        "shader_float32_atomic",
    ),
];

/// Largest number of storage buffers that one pipeline binds: the one over texels binds all planes of three channels
/// and the tally. A test counts them.
pub(crate) const STORAGE_BUFFERS: u32 = 28;
/// Bytes of one binding for a texture of 4096².
const BINDING_BYTES: u64 = 64 << 20;

/// The report: `{"adapters": […], "problems": […]}`.
pub(crate) fn report() -> Value {
    let adapters = adapters();
    let mut problems = Vec::new();
    let mut problem = |what: String, how_to_mend: &str| {
        problems.push(json!({"what": what, "how_to_mend": how_to_mend}));
    };
    let mut listed = Vec::new();
    for (adapter, info) in &adapters {
        let (limits, features) = (adapter.limits(), adapter.features());
        if limits.max_storage_buffers_per_shader_stage < STORAGE_BUFFERS {
            let has = limits.max_storage_buffers_per_shader_stage;
            let what = format!(
                "{} binds {has} buffers to a shader, Kiln needs {STORAGE_BUFFERS}",
                info.name
            );
            problem(what, "use another adapter, or --device cpu");
        }
        if limits.max_storage_buffer_binding_size < BINDING_BYTES {
            let has = limits.max_storage_buffer_binding_size >> 20;
            problem(
                format!(
                    "{} binds {has} MiB at most: textures of 4096² do not fit",
                    info.name
                ),
                "bake smaller textures on it, or use --device cpu",
            );
        }
        listed.push(json!({
            "name": info.name,
            "backend": info.backend,
            "kind": info.kind,
            "driver": info.driver,
            "limits": {
                "max_storage_buffer_binding_size": limits.max_storage_buffer_binding_size,
                "max_buffer_size": limits.max_buffer_size,
                "max_storage_buffers_per_shader_stage": limits.max_storage_buffers_per_shader_stage,
                "max_texture_dimension_2d": limits.max_texture_dimension_2d,
                "max_compute_workgroup_storage_size": limits.max_compute_workgroup_storage_size,
            },
            "features": FEATURES.iter().filter(|(bit, _)| features.contains(*bit)).map(|(_, name)| name).collect::<Vec<_>>(),
        }));
    }
    // The processor can always bake, so it is listed last and is never a problem.
    listed.push(json!({
        "name": format!("processor ({} threads)", rayon::current_num_threads()),
        "backend": "native",
        "kind": "native",
        "driver": "",
        "limits": {},
        "features": [],
    }));
    json!({"adapters": listed, "problems": problems})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_adapter_is_named_with_its_limits() {
        let report = report();
        for adapter in report["adapters"].as_array().expect("a list") {
            assert!(
                adapter["name"]
                    .as_str()
                    .is_some_and(|name| !name.is_empty())
            );
            assert!(
                adapter["kind"] == "native"
                    || adapter["limits"]["max_storage_buffer_binding_size"]
                        .as_u64()
                        .is_some_and(|bytes| bytes > 0)
            );
        }
        for problem in report["problems"].as_array().expect("a list") {
            assert!(problem["what"].is_string() && problem["how_to_mend"].is_string());
        }
    }
}
