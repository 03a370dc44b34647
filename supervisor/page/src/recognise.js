// Files in any order → which of them is the mesh, which the views, what belongs to each, and what is missing, in words.

import { lacks, readHeader, viewsIn } from "./arrays.js";
import { companion, parseModel } from "./colmap.js";
import { ENDINGS, parseTransforms, plain } from "./transforms.js";

/** @typedef {{path: string, blob: Blob}} Item */
/** @typedef {{files: Map<string, Blob>, main: string}} Source files by the name that the job gives them */
/**
 * @typedef {object} Found
 * @property {string[]} meshes paths that may be the mesh, best first
 * @property {string[]} viewSets paths that may list the views, best first
 * @property {Source | null} mesh
 * @property {(Source & {frames: import("./transforms.js").Frame[], pictures: (Blob | null)[], arrays?: import("./arrays.js").Header}) | null} views
 *   without frames: splats, or arrays
 * @property {{blob: Blob, name: string, header: import("./arrays.js").Header} | null} arrays
 * @property {string | null} missing one line; none where a job can be submitted
 */

const MESHES = ["glb", "gltf", "ply", "obj", "stl", "off"];
const GLTF = ["glb", "gltf"];
const SPLATS = ["spz", "sog", "splat"];
const LARGEST_JSON = 64 << 20;
/** Where a model's folder `images` may be: beside it, or so many folders above. */
const ABOVE = 3;
/** Bytes in which the header of a PLY of splats ends, with 45 harmonics. */
const PLY_HEADER = 8192;

const EXPORTER = "dataparser_transforms.json";

/** @param {string} path */
const ending = (path) => path.slice(path.lastIndexOf(".") + 1).toLowerCase();
/** @param {string} path */
const base = (path) => path.slice(path.lastIndexOf("/") + 1);
/** @param {string} path */
const folder = (path) => path.slice(0, path.lastIndexOf("/") + 1);
/** @param {string} path */
const depth = (path) => path.split("/").length;

/**
 * @param {Item[]} items
 * @param {{mesh?: string, views?: string}} [choice] paths that the user prefers
 * @returns {Promise<Found>}
 */
export async function recognise(items, choice = {}) {
    const byPath = new Map(items.map((item) => [item.path, item.blob]));
    const paths = [...byPath.keys()].sort((a, b) => depth(a) - depth(b) || a.localeCompare(b, "en", { numeric: true }));
    const splats = await splatsAmong(paths, byPath);
    const meshes = paths
        .filter((path) => MESHES.includes(ending(path)) && !splats.includes(path))
        .sort((a, b) => depth(a) - depth(b) || MESHES.indexOf(ending(a)) - MESHES.indexOf(ending(b)));
    const { sets, wrong } = await viewSets(paths, byPath);
    const arrays = await arraysAmong(paths, byPath);
    const withMesh = [...arrays].filter(([, header]) => lacks(header, "mesh").length === 0).map(([path]) => path);
    const withViews = [...arrays].filter(([, header]) => lacks(header, "views").length === 0).map(([path]) => path);
    // Cameras with pictures are what somebody made for this; splats beside them are where those came from.
    const viewSetPaths = [...sets.keys(), ...withViews, ...splats];
    meshes.push(...withMesh);
    const found = /** @type {Found} */ ({
        meshes, viewSets: viewSetPaths, mesh: null, views: null, arrays: null, missing: null,
    }); // prettier-ignore

    const alone = withMesh.find((path) => withViews.includes(path)) ?? paths.find((path) => ending(path) === "safetensors");
    if (alone && meshes.every((path) => path === alone) && viewSetPaths.every((path) => path === alone)) {
        const header = arrays.get(alone);
        if (!header) return { ...found, missing: `${base(alone)} is no safetensors file` };
        found.arrays = { blob: /** @type {Blob} */ (byPath.get(alone)), name: base(alone), header };
        const lacking = [...lacks(header, "mesh"), ...lacks(header, "views")];
        found.missing = lacking.length > 0 ? `${base(alone)} has no ${lacking.join(", no ")}` : null;
        return found;
    }

    if (meshes.length === 0 && splats.length > 0) {
        const path = /** @type {string} */ (pick(splats, choice.mesh));
        const { source, absent } = await splatsSource(path, byPath);
        return { ...found, meshes: splats, viewSets: [], mesh: source, missing: absent.length > 0 ? refers(path, absent) : null };
    }

    const problems = [];
    const meshPath = pick(meshes, choice.mesh);
    if (meshPath) {
        const { source, absent } = await meshSource(meshPath, byPath);
        found.mesh = source;
        if (absent.length > 0) problems.push(refers(meshPath, absent));
    } else {
        problems.push("a mesh is missing (GLB, glTF, PLY, OBJ, STL, OFF or safetensors)");
    }
    const viewsPath = pick(viewSetPaths, choice.views);
    if (viewsPath && splats.includes(viewsPath)) {
        const { source, absent } = await splatsSource(viewsPath, byPath);
        found.views = { ...source, frames: [], pictures: [] };
        if (absent.length > 0) problems.push(refers(viewsPath, absent));
    } else if (viewsPath && arrays.has(viewsPath)) {
        const blob = /** @type {Blob} */ (byPath.get(viewsPath));
        found.views = { files: new Map([[base(viewsPath), blob]]), main: base(viewsPath), frames: [], pictures: [], arrays: arrays.get(viewsPath) };
    } else if (viewsPath) {
        const read = companion(base(viewsPath)) ? modelSource : viewsSource;
        const { source, absent } = read(viewsPath, sets.get(viewsPath) ?? [], byPath);
        found.views = source;
        if (absent.length > 0) {
            const of = `${absent.length} of the ${source.frames.length} pictures that ${base(viewsPath)} names`;
            problems.push(`${of} ${absent.length === 1 ? "is" : "are"} missing: ${some(absent)}`);
        }
    } else {
        problems.push(wrong ?? "cameras are missing: a transforms.json, a model of COLMAP, or Gaussian splats");
    }
    found.missing = problems.length > 0 ? problems.join("; ") : null;
    return found;
}

/** How many views there are. @param {Found} found */
export function countViews(found) {
    const header = found.arrays?.header ?? found.views?.arrays;
    return header ? viewsIn(header) : (found.views?.frames.length ?? 0);
}

/** Whether the views are drawn of splats: they have no pictures of their own. @param {Found} found */
export function hasSplats(found) {
    return found.arrays === null && countViews(found) === 0;
}

/** @param {string[]} candidates @param {string | undefined} wished */
function pick(candidates, wished) {
    return wished && candidates.includes(wished) ? wished : candidates[0];
}

/** The first few names, and how many more. @param {string[]} names */
function some(names) {
    const more = names.length - 3;
    return names.slice(0, 3).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** What is said of a file that names others. @param {string} path @param {string[]} absent */
function refers(path, absent) {
    return `${base(path)} refers to ${some(absent)}, not among the files`;
}

/**
 * Files of Gaussian splats: by their endings, a PLY by its header, a glTF by its primitives, and a SOG's list by the planes
 * beside it.
 * @param {string[]} paths @param {Map<string, Blob>} byPath
 */
async function splatsAmong(paths, byPath) {
    const found = [];
    for (const path of paths) {
        const blob = /** @type {Blob} */ (byPath.get(path));
        if (SPLATS.includes(ending(path)) || (base(path) === "meta.json" && planesOf(path, byPath).size > 1)) {
            found.push(path);
        } else if (ending(path) === "ply") {
            const head = (await blob.slice(0, PLY_HEADER).text()).split("end_header")[0];
            if (/^property .* (f_dc_0|packed_position)\s*$/m.test(head)) found.push(path);
        } else if (GLTF.includes(ending(path)) && isOfSplats(await jsonOf(path, blob))) {
            found.push(path);
        }
    }
    return found;
}

/** Whether a glTF holds splats, and no triangles beside them. @param {any} json */
function isOfSplats(json) {
    const meshes = Array.isArray(json?.meshes) ? json.meshes : [];
    const primitives = meshes.flatMap((/** @type {any} */ mesh) => mesh?.primitives ?? []);
    const are = (/** @type {any} */ primitive) => primitive?.extensions?.KHR_gaussian_splatting !== undefined;
    return primitives.some(are) && primitives.every((/** @type {any} */ primitive) => are(primitive) || primitive?.mode < 4);
}

/**
 * Splats, with the buffers of a glTF or the planes of a SOG.
 * @param {string} path @param {Map<string, Blob>} byPath @returns {Promise<{source: Source, absent: string[]}>}
 */
async function splatsSource(path, byPath) {
    if (GLTF.includes(ending(path))) return meshSource(path, byPath);
    return { source: { files: planesOf(path, byPath), main: base(path) }, absent: [] };
}

/** Splats, and the WebP planes beside the list of a SOG. @param {string} path @param {Map<string, Blob>} byPath */
function planesOf(path, byPath) {
    const files = new Map([[base(path), /** @type {Blob} */ (byPath.get(path))]]);
    if (base(path) === "meta.json") {
        for (const [other, blob] of byPath) {
            if (folder(other) === folder(path) && ending(other) === "webp") files.set(base(other), blob);
        }
    }
    return files;
}

/** safetensors files with what they hold. @param {string[]} paths @param {Map<string, Blob>} byPath */
async function arraysAmong(paths, byPath) {
    /** @type {Map<string, import("./arrays.js").Header>} */
    const found = new Map();
    for (const path of paths.filter((path) => ending(path) === "safetensors")) {
        const header = await readHeader(/** @type {Blob} */ (byPath.get(path)));
        if (header) found.set(path, header);
    }
    return found;
}

/**
 * JSON files with frames, `transforms.json` first, then what is named like it; then models of COLMAP, the binary of two forms.
 * @param {string[]} paths @param {Map<string, Blob>} byPath
 */
async function viewSets(paths, byPath) {
    const rank = (/** @type {string} */ path) => {
        const order = ["transforms.json", "transforms_train.json"].indexOf(base(path));
        return order >= 0 ? order : base(path).startsWith("transforms") ? 2 : 3;
    };
    /** @type {Map<string, import("./transforms.js").Frame[]>} */
    const sets = new Map();
    /** @type {string | null} */
    let wrong = null;
    const named = paths.filter((path) => ending(path) === "json").sort((a, b) => rank(a) - rank(b));
    for (const path of named) {
        const blob = /** @type {Blob} */ (byPath.get(path));
        if (blob.size > LARGEST_JSON) continue;
        const read = parseTransforms(await blob.text());
        if ("frames" in read) sets.set(path, read.frames);
        else if (rank(path) < 3) wrong ??= `${base(path)} ${read.error}`;
    }
    for (const path of paths) {
        const cameras = companion(base(path));
        const binary = base(path) === "images.txt" && sets.has(`${folder(path)}images.bin`);
        if (!cameras || binary) continue;
        const blob = byPath.get(folder(path) + cameras);
        if (!blob) {
            wrong ??= `${base(path)} is a model of COLMAP, and ${cameras} is not beside it`;
            continue;
        }
        const frames = await parseModel(/** @type {Blob} */ (byPath.get(path)), blob, ending(path) === "txt");
        if (frames.length > 0) sets.set(path, frames);
        else wrong ??= `${base(path)} is no model of COLMAP with images`;
    }
    return { sets, wrong };
}

/**
 * The mesh with the buffers that it names.
 * @param {string} path @param {Map<string, Blob>} byPath
 * @returns {Promise<{source: Source, absent: string[]}>}
 */
async function meshSource(path, byPath) {
    const blob = /** @type {Blob} */ (byPath.get(path));
    const files = new Map([[base(path), blob]]);
    const absent = [];
    for (const name of await buffersOf(path, blob)) {
        const buffer = find(name, folder(path), byPath);
        if (buffer) files.set(plain(name), buffer);
        else absent.push(name);
    }
    return { source: { files, main: base(path) }, absent };
}

/** Names of the files that a glTF keeps its numbers in. @param {string} path @param {Blob} blob */
async function buffersOf(path, blob) {
    const json = await jsonOf(path, blob);
    try {
        const uris = (json?.buffers ?? []).map((/** @type {any} */ buffer) => buffer?.uri);
        const names = uris.filter((/** @type {unknown} */ uri) => typeof uri === "string" && !uri.startsWith("data:"));
        return names.map((/** @type {string} */ name) => decodeURIComponent(name));
    } catch {
        // A broken file: the job's own words will be better.
        return [];
    }
}

/** The JSON of a glTF or GLB; none of another or a broken file. @param {string} path @param {Blob} blob */
async function jsonOf(path, blob) {
    let text = "";
    if (ending(path) === "gltf") text = await blob.text();
    if (ending(path) === "glb") {
        const head = new DataView(await blob.slice(0, 20).arrayBuffer());
        if (head.byteLength === 20) text = await blob.slice(20, 20 + head.getUint32(12, true)).text();
    }
    try {
        return JSON.parse(text);
    } catch {
        return null;
    }
}

/**
 * The views with their pictures and masks, under the names by which `transforms.json` calls them.
 * @param {string} path @param {import("./transforms.js").Frame[]} frames @param {Map<string, Blob>} byPath
 */
function viewsSource(path, frames, byPath) {
    const files = new Map([[base(path), /** @type {Blob} */ (byPath.get(path))]]);
    /** @type {string[]} */
    const absent = [];
    const take = (/** @type {string} */ name) => {
        for (const end of ENDINGS) {
            const blob = find(name + end, folder(path), byPath);
            if (!blob) continue;
            files.set(plain(name + end), blob);
            return blob;
        }
        absent.push(name || "a frame without file_path");
        return null;
    };
    const pictures = frames.map((frame) => {
        frame.beside.forEach(take);
        for (const name of masksOf(plain(frame.file))) {
            const blob = byPath.get(folder(path) + name);
            if (blob) files.set(name, blob);
        }
        return take(frame.file);
    });
    // How nerfstudio's exporters moved its world.
    const moved = byPath.get(`${folder(path)}${EXPORTER}`);
    if (moved) files.set(EXPORTER, moved);
    return { source: { files, main: base(path), frames, pictures }, absent };
}

/** Masks that Kiln finds by the name of a picture. @param {string} name */
function masksOf(name) {
    const stem = base(name).replace(/\.[^.]*$/, "");
    const masks = folder(name).replace("images", "masks");
    const beneath = masks === folder(name) ? [] : [`${masks}${base(name)}.png`, `${masks}${stem}.png`];
    return [`${folder(name)}dynamic_mask_${stem}.png`, `${folder(name)}${stem}.alpha.png`, `${folder(name)}${stem}.mask.png`, ...beneath];
}

/**
 * A model of COLMAP: its two files, and the pictures and masks of the nearest folders `images` and `masks`.
 * @param {string} path @param {import("./transforms.js").Frame[]} frames @param {Map<string, Blob>} byPath
 */
function modelSource(path, frames, byPath) {
    const cameras = /** @type {string} */ (companion(base(path)));
    const files = new Map([path, folder(path) + cameras].map((name) => [base(name), /** @type {Blob} */ (byPath.get(name))]));
    const paths = [...byPath.keys()];
    let around = folder(path);
    for (let k = 0; k < ABOVE && around !== "" && !paths.some((name) => name.startsWith(`${around}images/`)); k++) around = folder(around.slice(0, -1));
    /** @type {string[]} */
    const absent = [];
    const pictures = frames.map(({ file }) => {
        const blob = find(file, `${around}images/`, byPath);
        if (blob) files.set(`images/${plain(file)}`, blob);
        else absent.push(file);
        for (const name of [`${file}.png`, file.replace(/\.[^./]*$/, ".png")]) {
            const mask = byPath.get(`${around}masks/${plain(name)}`);
            if (mask) files.set(`masks/${plain(name)}`, mask);
        }
        return blob ?? null;
    });
    return { source: { files, main: base(path), frames, pictures }, absent };
}

/**
 * A file by the name that another one beside it uses; where the folders were lost on the way, by the end of its path.
 * @param {string} name @param {string} beside @param {Map<string, Blob>} byPath
 */
function find(name, beside, byPath) {
    const path = plain(name);
    const exact = byPath.get(beside + path);
    if (exact || path.startsWith("/") || path.split("/").includes("..")) return exact;
    const alike = [...byPath.keys()].filter((known) => base(known) === base(path));
    return alike.length === 1 && path.endsWith(alike[0]) ? byPath.get(alike[0]) : undefined;
}
