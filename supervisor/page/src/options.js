// The options of a job, as the sidecar's schema lists them → a form, what it says as a spec, and what the sidecar says is wrong
// with it, beside the field. An option that the page has no words for has those of the schema.

import { fill, h } from "./dom.js";
import { GROUPS } from "./labels.js";

/** @typedef {import("./labels.js").Label} Label */
/** @typedef {{label: Label, schema: any, control: HTMLInputElement | HTMLSelectElement}} Field */

/** Keys that say where the inputs are. */
const INPUTS = ["mesh", "views", "original", "arrays"];
/** Where the page starts from something else than the schema's default: both are shown here. */
const ASKED = /** @type {Record<string, any>} */ ({ preview: true, maps: true });
const SIZES = [256, 512, 1024, 2048, 4096, 8192];

/** What may be chosen. @param {any} schema @returns {string[] | null} none where it is no choice; "" where it may be left open */
function choices(schema) {
    const open = schema.anyOf?.some((/** @type {any} */ one) => one.type === "null");
    const list = schema.enum ?? (schema.oneOf ?? schema.anyOf?.find((/** @type {any} */ one) => one.oneOf)?.oneOf)?.map((/** @type {any} */ one) => one.const);
    return list ? [...(open ? [""] : []), ...list.map(String)] : null;
}

/** @param {any} schema @param {string} type */
const is = (schema, type) => [schema.type].flat().includes(type);

export class Options {
    /** @param {any} abilities /v1/capabilities @param {Record<string, any>} schema properties of a spec */
    constructor(abilities, schema) {
        /** @type {Field[]} */
        this.fields = [];
        const known = GROUPS.flatMap(([, labels]) => labels.map(({ key }) => key));
        const others = Object.keys(schema).filter((key) => !known.includes(key) && !INPUTS.includes(key));
        const unknown = others.map((key) => ({ key, label: key.replaceAll("_", " "), hint: schema[key].description }));
        const [[, first], ...further] = [...GROUPS, /** @type {[string, Label[]]} */ (["Others", unknown])];
        const rows = (/** @type {Label[]} */ labels) =>
            labels.filter(({ key }) => schema[key]).map((label) => this.#row({ label, schema: schema[label.key], control: control(label, schema[label.key], abilities) }));
        const groups = further.map(([title, labels]) => {
            const shown = rows(labels);
            return shown.length > 0 && h("fieldset", { class: "options" }, h("legend", null, title), shown);
        });
        this.element = h("fieldset", { class: "options" }, h("legend", null, "Options"), rows(first),
            h("details", null, h("summary", null, "More options"), groups)); // prettier-ignore
    }

    /** @param {Field} field */
    #row(field) {
        const { label: { key, label, hint }, control } = field; // prettier-ignore
        this.fields.push(field);
        const [note, error] = [`opt-${key}-hint`, `opt-${key}-error`];
        control.setAttribute("aria-describedby", `${hint ? `${note} ` : ""}${error}`);
        control.addEventListener("input", () => this.complain(key, ""));
        const text = h("label", { for: control.id }, label);
        const parts = control.type === "checkbox" ? [control, text] : [text, control];
        return h("div", { class: control.type === "checkbox" ? "field check" : "field" }, parts,
            hint && h("p", { class: "hint", id: note }, hint), h("p", { class: "error", id: error })); // prettier-ignore
    }

    /** The default name. @param {string} text */
    suggestName(text) {
        this.#field("name")?.control.setAttribute("placeholder", text);
    }

    /** @param {string} key */
    #field(key) {
        return this.fields.find(({ label }) => label.key === key);
    }

    /** What the form says, without inputs. @returns {Record<string, any>} */
    spec() {
        /** @type {Record<string, any>} */
        const spec = {};
        for (const { label, schema, control } of this.fields) {
            if (control.type === "checkbox") spec[label.key] = /** @type {HTMLInputElement} */ (control).checked;
            else if (control.value === "") continue;
            else spec[label.key] = is(schema, "integer") || is(schema, "number") ? Number(control.value) * (label.unit ?? 1) : control.value;
        }
        spec.name ??= this.#field("name")?.control.getAttribute("placeholder") ?? "";
        // The page asks for maps unasked, and vertices have none.
        if (spec.vertex_colours) spec.maps = false;
        return spec;
    }

    /** As a job was asked for. @param {Record<string, any>} spec */
    show(spec) {
        for (const { label, control } of this.fields) {
            const value = spec[label.key];
            if (control.type === "checkbox") /** @type {HTMLInputElement} */ (control).checked = Boolean(value);
            else if (value === undefined || value === null) control.value = "";
            else {
                const text = String(typeof value === "number" ? value / (label.unit ?? 1) : value);
                // A size or a device that only the API offers.
                if (control instanceof HTMLSelectElement && ![...control.options].some((option) => option.value === text)) control.append(h("option", { value: text }, text));
                control.value = text;
            }
        }
    }

    /** Says what is wrong with a field; whether there is such a field. @param {string} key @param {string} why */
    complain(key, why) {
        const control = this.#field(key)?.control;
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

/** @param {Label} label @param {any} schema @param {any} abilities @returns {HTMLInputElement | HTMLSelectElement} */
function control({ key, values = {}, blank, unit = 1 }, schema, abilities) {
    const given = ASKED[key] ?? schema.default ?? "";
    const common = { id: `opt-${key}`, name: key };
    const choice = (/** @type {[string, string][]} */ options) => {
        const select = h("select", common, options.map(([value, text]) => h("option", { value }, text))); // prettier-ignore
        select.value = String(given);
        return select;
    };
    if (key === "texture_size") return choice(SIZES.filter((edge) => edge >= schema.minimum && edge <= schema.maximum).map((edge) => [String(edge), `${edge} × ${edge}`]));
    if (key === "device") {
        const gpus = (abilities?.adapters ?? []).filter((/** @type {any} */ adapter) => adapter.kind !== "native");
        return choice([["auto", "Automatic"], ["gpu", "GPU"], ["cpu", "Processor"], ...gpus.map((/** @type {any} */ gpu) => [gpu.name, gpu.name])]);
    }
    const offered = choices(schema);
    if (offered) return choice(offered.map((value) => [value, values[value] ?? (value || "As it suits")]));
    if (is(schema, "boolean")) return h("input", { ...common, type: "checkbox", checked: given });
    if (is(schema, "integer") || is(schema, "number")) {
        // 64 bits are more than the browser counts.
        const most = schema.maximum <= Number.MAX_SAFE_INTEGER ? { max: schema.maximum / unit } : {};
        return h("input", { ...common, type: "number", min: (schema.minimum ?? 0) / unit, ...most, step: is(schema, "integer") ? 1 : "any", placeholder: blank, value: given });
    }
    return h("input", { ...common, maxlength: schema.maxLength, autocomplete: "off", value: given });
}
