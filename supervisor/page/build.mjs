// The page's sources → dist/: one file to start with and one for the 3D view, minified, named by what they hold, each also
// gzipped; the licences of what is bundled; and assets.rs, which embeds all of them in `kiln`.
//
// Run by supervisor/build.rs in a copy of this folder: node build.mjs

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, extname, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const OUT = resolve("dist");
const BUNDLED = ["three", "fflate"];
const TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
};

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT);

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

writeFileSync(join(OUT, "index.html"), html);
writeFileSync(join(OUT, "licences.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));

const names = Object.keys(result.metafile.outputs).map((path) => basename(path));
const assets = [...names, "index.html", "licences.txt"].map((name) => {
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
