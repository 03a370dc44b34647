// Descriptions → elements. Text stays text: nothing here reads HTML.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element with attributes (`class`, `aria-…`, booleans), properties that have no attribute, listeners (`onclick`) and children.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, any> | null} [props] @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(props ?? {})) {
        if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
        else if (key === "value" || key === "checked" || key === "max") Object.assign(element, { [key]: value });
        else if (value === true) element.setAttribute(key, "");
        else if (value !== false && value != null) element.setAttribute(key, String(value));
    }
    fill(element, ...children);
    return element;
}

/** Replaces what is in an element. @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
    const kept = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
    element.replaceChildren(...kept.map((child) => (typeof child === "number" ? String(child) : child)));
}

/** Sets text only where it differs, so that nobody's selection is lost. @param {Element} element @param {string} text */
export function say(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

/** An element of the document. @param {string} id */
export function by(id) {
    const element = document.getElementById(id);
    if (!element) throw new Error(`the page has no ${id}`);
    return element;
}

/** Rows of terms and what is said of them. @param {[string, Child][]} rows */
export function terms(rows) {
    const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
    return h("dl", { class: "terms" }, shown.map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value))));
}

/** Saves bytes under a name. @param {Blob} blob @param {string} name */
export function save(blob, name) {
    const url = URL.createObjectURL(blob);
    h("a", { href: url, download: name }).click();
    // The browser has begun by then.
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
