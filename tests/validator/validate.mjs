// GLBs through the Khronos validator. Once: `npm ci --ignore-scripts` in this folder. Then: `node validate.mjs FILE.glb…`
// Exit code 0: no errors and no warnings in any file; 1: some, each printed; 2: no file, or one that cannot be read.
// Infos are printed and do not fail: a texture whose edge is no power of two is what the caller asked for.
import { readFile } from "node:fs/promises";
import { argv, exit } from "node:process";
import validator from "gltf-validator";

const SEVERITIES = ["error", "warning", "info", "hint"];

async function validate(path) {
  const report = await validator.validateBytes(new Uint8Array(await readFile(path)), { uri: path });
  const { numErrors, numWarnings, messages } = report.issues;
  for (const { severity, code, message, pointer } of messages) {
    console.log(`${path}: ${SEVERITIES[severity]} ${code} at ${pointer ?? "the file"}: ${message}`);
  }
  console.log(`${path}: ${numErrors} errors, ${numWarnings} warnings`);
  return numErrors + numWarnings === 0;
}

const paths = argv.slice(2);
if (paths.length === 0) {
  console.error("usage: node validate.mjs FILE.glb…");
  exit(2);
}
try {
  let clean = true;
  for (const path of paths) {
    clean = (await validate(path)) && clean;
  }
  exit(clean ? 0 : 1);
} catch (error) {
  console.error(`${error}`);
  exit(2);
}
