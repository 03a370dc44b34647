// What the command line and JSON call an option → what the form calls it; the time that is left.

import assert from "node:assert/strict";
import { test } from "node:test";
import { left } from "../src/format.js";
import { doing, inWords } from "../src/labels.js";
import { apply, begin, timeLeft } from "../src/timeline.js";

test("flags and keys are said in the words of the form", () => {
    const cases = [
        ["leave out --keep-uvs to have new ones made", "leave out “Keep the mesh’s UVs” to have new ones made"],
        ["a smaller --texture-size, or --device cpu", "a smaller “Texture”, or “Device” cpu"],
        ["add --texture-format jpeg, webp-lossy or ktx2-etc1s", "add “Texture format: JPEG, WebP, lossy or KTX2, smallest (ETC1S)”"],
        ["is for texture_format jpeg, webp-lossy and ktx2-etc1s", "is for “Texture format: JPEG, WebP, lossy and KTX2, smallest (ETC1S)”"],
        ["--timeout SECONDS allows more; --quality draft needs less", "“Give up after, in seconds” allows more; “Quality: Draft” needs less"],
        ["not together with target_faces", "not together with “Triangles”"],
        ["less than the 30 dB of --min-psnr", "less than the 30 dB of “Least PSNR in dB”"],
        ["--frame given undoes the lens", "“Place of the mesh: As the files say” undoes the lens"],
        ["the quality of pages, and /tmp/texture_sized.png", "the quality of pages, and /tmp/texture_sized.png"],
        ["give a mesh, and these splats as --views", "give a mesh, and these splats as the views"],
    ];
    for (const [said, wanted] of cases) assert.equal(inWords(said), wanted);
    assert.equal(doing("load_mesh"), "Reading the mesh");
    assert.equal(doing("some_new_phase"), "some new phase");
});

test("the time left follows what is done, and no phase takes less than it says", () => {
    const line = begin();
    const at = (progress, eta_s = null) => apply(line, "progress", { role: "bake", phase: "fit", fraction: 0.5, eta_s, progress });
    assert.equal(timeLeft(line, 10), null);
    at(0.01);
    assert.equal(timeLeft(line, 10), null);
    at(0.25);
    assert.equal(timeLeft(line, 10), 30);
    assert.equal(timeLeft(line, null), null);
    at(0.25, 45);
    assert.equal(timeLeft(line, 10), 45);
    assert.equal(timeLeft(line, null), 45);
    const words = [[3, "a few seconds left"], [13, "about 15 s left"], [61, "about 1 min left"], [98, "about 1 min 45 s left"], [4000, "about 1 h 07 min left"]]; // prettier-ignore
    for (const [seconds, wanted] of words) assert.equal(left(seconds), wanted);
});
