// The page's sources → dist/: one file to start with, one for the 3D view and one for each decoder, minified, named by what they
// hold, each also gzipped; the licences of what is bundled; and assets.rs, which embeds all of them in `kiln`.
//
// Run by supervisor/build.rs in a copy of this folder: node build.mjs

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, extname, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { KTX2Loader } from "three/addons/loaders/KTX2Loader.js";

const OUT = resolve("dist");
const BUNDLED = ["three", "fflate"];
const LIBRARIES = "node_modules/three/examples/jsm/libs";
const TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
};

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT);

/** Writes a file that is no module, named by what it holds. @param {string} name @param {string | Buffer} bytes @returns {string} its name */
function put(name, bytes) {
    const [stem, ending] = [basename(name, extname(name)), extname(name)];
    const named = `${stem}-${createHash("sha256").update(bytes).digest("hex").slice(0, 8)}${ending}`;
    writeFileSync(join(OUT, named), bytes);
    return named;
}

/** The worker of three's KTX2Loader, which three puts together in the browser. @returns {string} */
function basisWorker() {
    const { BasisFormat, BasisWorker, EngineFormat, EngineType, TranscoderFormat } = KTX2Loader;
    const tables = Object.entries({ BasisFormat, EngineFormat, EngineType, TranscoderFormat });
    const constants = tables.map(([name, table]) => `const _${name} = ${JSON.stringify(table)};`);
    return [...constants, readFileSync(`${LIBRARIES}/basis/basis_transcoder.js`, "utf8"), `(${BasisWorker})();`].join("\n");
}

const worker = put("basis.js", basisWorker());
const transcoder = put("basis.wasm", readFileSync(`${LIBRARIES}/basis/basis_transcoder.wasm`));

const result = await build({
    entryPoints: { page: "src/main.js", style: "style.css", icon: "icon.svg" },
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    bundle: true,
    minify: true,
    splitting: true,
    format: "esm",
    target: ["es2022"],
    legalComments: "none",
    loader: { ".svg": "copy" },
    define: { __BASIS_WORKER__: JSON.stringify(`/page/${worker}`), __BASIS_TRANSCODER__: JSON.stringify(`/page/${transcoder}`) },
    outdir: OUT,
    metafile: true,
    logLevel: "warning",
});

/** The built file of a source. @param {string} source @returns {string} */
function built(source) {
    const outputs = Object.entries(result.metafile.outputs);
    const found = outputs.find(([, output]) => output.entryPoint === source);
    if (!found) throw new Error(`${source} was not built`);
    return basename(found[0]);
}

const html = readFileSync("index.html", "utf8")
    .replace("style.css", `/page/${built("style.css")}`)
    .replace("src/main.js", `/page/${built("src/main.js")}`)
    .replaceAll("icon.svg", `/page/${built("icon.svg")}`);

const licences = BUNDLED.map((name) => {
    const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
    return `${name} ${version} (${license})\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});

// What three brings along of others.
licences.push(
    "Basis Universal transcoder (Apache-2.0)\n\nCopyright Binomial LLC. Licensed under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0\n",
    "Zstandard, within zstddec (BSD-3-Clause)\n\nCopyright Meta Platforms, Inc. and affiliates. The licence: https://github.com/facebook/zstd/blob/dev/LICENSE\n",
    "meshoptimizer's decoder (MIT), ktx-parse (MIT), zstddec (MIT)\n\nCopyright Arseny Kapoulkine; Don McCurdy. Licensed under the MIT License, as three above.\n",
);

writeFileSync(join(OUT, "index.html"), html);
writeFileSync(join(OUT, "licences.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));

const names = Object.keys(result.metafile.outputs).map((path) => basename(path));
const assets = [...names, worker, transcoder, "index.html", "licences.txt"].map((name) => {
    const bytes = readFileSync(join(OUT, name));
    writeFileSync(join(OUT, `${name}.gz`), gzipSync(bytes, { level: 9 }));
    const at = JSON.stringify(join(OUT, name));
    return `    Asset {
        name: ${JSON.stringify(name)},
        media_type: ${JSON.stringify(TYPES[extname(name)])},
        tag: "${createHash("sha256").update(bytes).digest("hex").slice(0, 32)}",
        bytes: include_bytes!(${at}),
        gzip: include_bytes!(${at.slice(0, -1)}.gz"),
    },`;
});
writeFileSync("assets.rs", `static ASSETS: &[Asset] = &[\n${assets.join("\n")}\n];\n`);
