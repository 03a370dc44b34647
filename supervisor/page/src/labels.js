// Options, phases and errors → the page's words for them. Which options there are, and what they take, the sidecar says.

/**
 * @typedef {object} Label
 * @property {string} key of the spec
 * @property {string} label
 * @property {string} [hint]
 * @property {Record<string, string>} [values] the words for what may be chosen; "" is nothing chosen
 * @property {string} [blank] what it means that nothing is written
 * @property {number} [unit] of a number, in those of the spec
 */

/** In the order of the form; those of the first group are always seen. @type {[string, Label[]][]} */
export const GROUPS = [
    ["", [
        { key: "name", label: "Name" },
        { key: "texture_size", label: "Texture" },
        { key: "pages", label: "Pages", values: { 1: "One texture", 4: "4 textures", 9: "9 textures", 16: "16 textures" }, hint: "Each of that size, with a material of its own" },
        { key: "quality", label: "Quality", values: { draft: "Draft", standard: "Standard", best: "Best" }, hint: "Draft takes a third of the time, Best several times as much" },
        { key: "device", label: "Device" },
        { key: "target_faces", label: "Triangles", blank: "all of them", hint: "Simplifies the mesh down to so many" },
        { key: "holdout", label: "Views held out", hint: "To measure with, not to fit" },
        { key: "blend", label: "Blend", values: { "": "As the views need", linear: "Linear light", srgb: "sRGB values" }, hint: "sRGB for what blends encoded colours, as Gaussian splats do" },
        { key: "keep_uvs", label: "Keep the mesh’s UVs" },
        { key: "preview", label: "Contact sheet" },
        { key: "maps", label: "Maps of coverage and residual" },
        { key: "html", label: "Report as a page" },
    ]],
    ["Result", [
        { key: "texture_format", label: "Texture format", values: { png: "PNG", jpeg: "JPEG", webp: "WebP", "webp-lossy": "WebP, lossy", "ktx2-etc1s": "KTX2, smallest (ETC1S)", "ktx2-uastc": "KTX2, best (UASTC)" }, hint: "Not every viewer reads WebP or KTX2" },
        { key: "texture_quality", label: "Quality of the format", blank: "as it suits", hint: "1 to 100; of JPEG, lossy WebP and ETC1S" },
        { key: "compress", label: "Mesh in the file", values: { none: "Plain", meshopt: "Compressed (meshopt)" } },
        { key: "alpha_mode", label: "Opacity", values: { auto: "By what it holds", opaque: "Opaque", mask: "Mask", blend: "Blend" }, hint: "Where the views bring it as a channel" },
        { key: "alpha_cutoff", label: "Mask’s cutoff", hint: "Less opaque than this is not there" },
        { key: "texture_auto", label: "Smaller texture where views resolve less" },
        { key: "detail", label: "Shape that simplification takes", values: { off: "Left out", normal: "Normal map", occlusion: "Occlusion", "normal,occlusion": "Normal map and occlusion" } },
        { key: "vertex_colours", label: "A colour for each vertex, and no texture" },
        { key: "provenance_attribute", label: "Vertices say what was observed" },
    ]],
    ["Mesh", [
        { key: "simplify", label: "Share of triangles to remove", blank: "none", hint: "0.95 keeps one in twenty" },
        { key: "fill_holes", label: "Fill holes up to", blank: "none", hint: "Area, as a share of the square of the longest side; TRELLIS has 0.04" },
        { key: "hole_edges", label: "Edges of a hole at most" },
        { key: "weld", label: "Weld within", blank: "nothing", hint: "Share of the mesh’s diagonal" },
        { key: "up", label: "Up in mesh and views", values: { y: "y, as in glTF", z: "z, turned to y", "-y": "−y, as COLMAP and most splats have it" } },
        { key: "frame", label: "Place of the mesh", values: { auto: "Mended where silhouettes show how", given: "As the files say" } },
        { key: "uv_set", label: "Set of UVs to keep", blank: "the base colour’s" },
        { key: "remove_unseen", label: "Remove what nobody can see" },
        { key: "orient", label: "Wind triangles one way" },
    ]],
    ["Fit", [
        { key: "refine", label: "Cameras and exposures", values: { auto: "Mend where clearly off", on: "Mend wherever it helps", off: "Take as they are" } },
        { key: "min_psnr", label: "Least PSNR in dB", blank: "any", hint: "A worse texture is refused" },
        { key: "seed", label: "Choice of held-out views" },
    ]],
    ["Splats", [
        { key: "splat_views", label: "Views drawn of splats", hint: "auto, a number, or trellis" },
        { key: "splat_filter", label: "Filter of the splats", hint: "auto, classic, or mip; mip:0.1 is TRELLIS" },
        { key: "sh", label: "Harmonics of the splats", values: { view: "As each view sees them", 0: "Without highlights" } },
    ]],
    ["Run", [
        { key: "vram_budget", label: "GPU memory at most, in MiB", blank: "what is fastest", unit: 2 ** 20 },
        { key: "timeout_s", label: "Give up after, in seconds" },
        { key: "fallback", label: "After a failure", values: { same_plan: "Only the same once more", smaller_plan: "With less memory, too", adapters: "On another device, too", vertex_colours: "Vertex colours rather than nothing" } },
        { key: "gpu_times", label: "Measure each stage of the GPU" },
    ]],
]; // prettier-ignore

const LABELS = GROUPS.flatMap(([, labels]) => labels);

/** What is said in the terms of the command line or of JSON → in those of the form. @param {string} text */
export function inWords(text) {
    let said = text.replace(/:? kiln bake MESH --views VIEWS/g, ": choose which is which above");
    said = said.replace(/--texture-size auto/g, "--texture-auto").replace(/--timeout( SECONDS)?/g, "--timeout-s");
    for (const { key, label, values = {} } of LABELS) {
        const flag = key.replaceAll("_", "-");
        const names = Object.keys(values).filter((value) => value !== "").sort((a, b) => b.length - a.length); // prettier-ignore
        // A key of one word is a word of the language, too.
        const called = key.includes("_") ? `--${flag}|\\b${key}` : `--${flag}`;
        const chosen = names.length > 0 ? `((?:(?:, | or | and |[ =])(?:${names.join("|")})(?![\\w-]))*)` : "()";
        said = said.replace(new RegExp(`(?:${called})(?![\\w-])${chosen}`, "g"), (_, list) => {
            const words = list.replace(new RegExp(names.join("|"), "g"), (/** @type {string} */ value) => values[value]);
            return list === "" ? `“${label}”` : `“${label}: ${words.replace(/^[ =]/, "")}”`;
        });
    }
    return said.replace(/--views\b/g, "the views");
}

/** @param {string | null | undefined} key a key of the spec, as a problem names it */
export const labelOf = (key) => LABELS.find((label) => label.key === key)?.label ?? "";

/** What a process does; the words are those of `kiln bake`. @type {Record<string, string>} */
const PHASES = {
    start: "Starting",
    load_mesh: "Reading the mesh",
    surface: "Finding the surface of the splats",
    clean: "Cleaning the mesh",
    repair: "Repairing the mesh",
    simplify: "Simplifying the mesh",
    unwrap: "Unwrapping the mesh",
    decode_views: "Decoding views",
    open_device: "Opening the device",
    refine: "Refining cameras",
    raster: "Rasterising views",
    init: "Averaging views",
    fit: "Fitting the texture",
    gutter: "Filling gutters",
    detail: "Finding the original surface",
    png: "Compressing the texture",
    glb: "Writing the GLB",
    measure: "Measuring the result",
    preview: "Drawing the preview",
    commit: "Putting the result in place",
};

/** @param {string | null | undefined} phase */
export const doing = (phase) => PHASES[phase ?? ""] ?? (phase ?? "").replaceAll("_", " ");

/** What went wrong, in one line. @type {Record<string, string>} */
const ERRORS = {
    invalid_spec: "The options cannot be met",
    invalid_asset: "A file cannot be used",
    missing_input: "A file is missing",
    limit_exceeded: "It is larger than Kiln takes",
    unsupported_feature: "A file has something that Kiln does not read",
    out_of_host_memory: "The memory did not suffice",
    out_of_device_memory: "The memory of the GPU did not suffice",
    gpu_device_lost: "The GPU failed",
    gpu_hang: "The GPU stood still",
    shader_rejected: "The driver of the GPU refused the work",
    incomplete_output: "The result was not complete",
    no_adapter: "There is no such device",
    worker_crashed: "A process crashed",
    worker_stalled: "A process stood still",
    deadline_exceeded: "It took longer than it may",
    spawn_failed: "A process could not be started",
    protocol_violation: "A process did what it may not",
    sandbox_violation: "A process did what its sandbox forbids",
    sandbox_unavailable: "There is no sandbox here",
    binary_mismatch: "The programs kiln and kiln-baker do not belong together",
    output_error: "The result could not be put in place",
    io_error: "Reading or writing failed",
    cancelled: "It was cancelled",
    internal: "Kiln itself is at fault",
};

/** @param {string | null | undefined} code */
export const failed = (code) => ERRORS[code ?? ""] ?? (code ?? "").replaceAll("_", " ");
