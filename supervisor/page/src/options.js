// The options of a job: a form, what it says as a spec, and what the sidecar says is wrong with it, beside the field.

import { fill, h } from "./dom.js";

/** @typedef {{key: string, label: string, control: HTMLInputElement | HTMLSelectElement, hint?: string}} Field */

/** @param {string} key @param {string} label @param {[string, string][]} options @param {string} chosen @param {string} [hint] @returns {Field} */
function choice(key, label, options, chosen, hint) {
    const control = h("select", { id: `opt-${key}`, name: key }, options.map(([value, text]) => h("option", { value }, text)));
    control.value = chosen;
    return { key, label, control, hint };
}

/** @param {string} key @param {string} label @param {Record<string, any>} props @param {string} [hint] @returns {Field} */
function input(key, label, props, hint) {
    return { key, label, control: h("input", { id: `opt-${key}`, name: key, ...props }), hint };
}

export class Options {
    /** @param {any} abilities /v1/capabilities, or null while nobody knows */
    constructor(abilities) {
        const [least, most] = abilities?.limits?.texture_size ?? [256, 8192];
        const sizes = [256, 512, 1024, 2048, 4096, 8192].filter((edge) => edge >= least && edge <= most);
        const gpus = (abilities?.adapters ?? []).filter((/** @type {any} */ adapter) => adapter.kind !== "native");
        this.fields = [
            input("name", "Name", { maxlength: 80, autocomplete: "off" }),
            choice("texture_size", "Texture", sizes.map((edge) => [String(edge), `${edge} × ${edge}`]), "1024"),
            choice("pages", "Pages", [["1", "One texture"], ["4", "4 textures"], ["9", "9 textures"], ["16", "16 textures"]], "1", "Each of that size, with a material of its own"),
            choice("quality", "Quality", [["draft", "Draft"], ["standard", "Standard"], ["best", "Best"]], "standard", "Draft takes a third of the time, Best several times as much"),
            choice("device", "Device", [["auto", "Automatic"], ["gpu", "GPU"], ["cpu", "Processor"], ...gpus.map((/** @type {any} */ gpu) => [gpu.name, gpu.name])], "auto"),
            input("target_faces", "Triangles", { type: "number", min: 1, max: abilities?.limits?.triangles ?? 8_000_000, placeholder: "all of them" }, "Simplifies the mesh down to so many"),
            input("holdout", "Views held out", { type: "number", min: 0, max: 4095, value: 0 }, "To measure with, not to fit"),
            choice("blend", "Blend", [["", "As the views need"], ["linear", "Linear light"], ["srgb", "sRGB values"]], "", "sRGB for what blends encoded colours, as Gaussian splats do"),
            input("keep_uvs", "Keep the mesh’s UVs", { type: "checkbox" }),
            input("preview", "Contact sheet", { type: "checkbox", checked: true }),
        ]; // prettier-ignore
        // What most jobs leave as it is.
        const further = [
            choice("refine", "Cameras and exposures", [["auto", "Mend where clearly off"], ["on", "Mend wherever it helps"], ["off", "Take as they are"]], "auto"),
            choice("up", "Up in mesh and views", [["y", "y, as in glTF"], ["z", "z, turned to y"], ["-y", "−y, as COLMAP and most splats have it"]], "y"),
            choice("frame", "Place of the mesh", [["auto", "Mended where silhouettes show how"], ["given", "As the files say"]], "auto"),
            choice("alpha_mode", "Opacity", [["auto", "By what it holds"], ["opaque", "Opaque"], ["mask", "Mask"], ["blend", "Blend"]], "auto", "Where the views bring it as a channel"),
            choice("texture_format", "Texture format", [["png", "PNG"], ["jpeg", "JPEG"], ["webp", "WebP"]], "png", "Not every viewer reads WebP"),
            input("fill_holes", "Fill holes up to", { type: "number", min: 0.0001, max: 100, step: "any", placeholder: "none" }, "Area, as a share of the square of the longest side; TRELLIS has 0.04"),
            input("weld", "Weld within", { type: "number", min: 0.000001, max: 0.01, step: "any", placeholder: "nothing" }, "Share of the mesh’s diagonal"),
            input("texture_auto", "Smaller texture where views resolve less", { type: "checkbox" }),
            input("remove_unseen", "Remove what nobody can see", { type: "checkbox" }),
            input("orient", "Wind triangles one way", { type: "checkbox" }),
        ]; // prettier-ignore
        const row = (/** @type {Field} */ { key, label, control, hint }) => {
            const [note, error] = [`opt-${key}-hint`, `opt-${key}-error`];
            control.setAttribute("aria-describedby", `${hint ? `${note} ` : ""}${error}`);
            control.addEventListener("input", () => this.complain(key, ""));
            const text = h("label", { for: control.id }, label);
            const parts = control.type === "checkbox" ? [control, text] : [text, control];
            return h("div", { class: control.type === "checkbox" ? "field check" : "field" }, parts,
                hint && h("p", { class: "hint", id: note }, hint), h("p", { class: "error", id: error })); // prettier-ignore
        };
        const more = h("details", null, h("summary", null, "More options"), h("div", { class: "options" }, further.map(row)));
        this.element = h("fieldset", { class: "options" }, h("legend", null, "Options"), this.fields.map(row), more);
        this.fields.push(...further);
    }

    /** The default name. @param {string} text */
    suggestName(text) {
        const control = this.#control("name");
        if (control) control.setAttribute("placeholder", text);
    }

    /** @param {string} key */
    #control(key) {
        return this.fields.find((field) => field.key === key)?.control;
    }

    /** What the form says, without inputs. @returns {Record<string, any>} */
    spec() {
        /** @type {Record<string, any>} */
        const spec = {};
        for (const { key, control } of this.fields) {
            const number = control.type === "number" || key === "texture_size" || key === "pages";
            if (control.type === "checkbox") spec[key] = /** @type {HTMLInputElement} */ (control).checked;
            else if (number && control.value !== "") spec[key] = Number(control.value);
            else if (!number && control.value !== "") spec[key] = control.value;
        }
        spec.name ??= this.#control("name")?.getAttribute("placeholder") ?? "";
        return spec;
    }

    /** Says what is wrong with a field; whether there is such a field. @param {string} key @param {string} why */
    complain(key, why) {
        const control = this.#control(key);
        const place = this.element.querySelector(`#opt-${CSS.escape(key)}-error`);
        if (!control || !place) return false;
        fill(place, why);
        if (why) {
            control.setAttribute("aria-invalid", "true");
            // What is folded away cannot be focused.
            const folded = control.closest("details");
            if (folded) folded.open = true;
            control.focus();
        } else control.removeAttribute("aria-invalid");
        return true;
    }
}
