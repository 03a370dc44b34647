// Text of an event stream, in pieces of any size → its events, as the HTML standard's section 9.2.6 interprets them.

/** @typedef {{event: string, data: string, id: string}} ServerEvent */

export class SseParser {
    /** The last id that was told; kept across connections by whoever resumes. */
    id = "";
    /** Milliseconds that the server wants a reader to wait before it comes back. @type {number | null} */
    retry = null;
    #rest = "";
    #event = "";
    /** @type {string[]} */
    #data = [];
    #begun = false;

    /** @param {string} text @returns {ServerEvent[]} the events that the text completes */
    push(text) {
        let all = this.#rest + text;
        if (!this.#begun && all.length > 0) {
            this.#begun = true;
            if (all.charCodeAt(0) === 0xfeff) all = all.slice(1);
        }
        // A carriage return at the end may be half of a line's end.
        const held = all.endsWith("\r") ? 1 : 0;
        const lines = all.slice(0, all.length - held).split(/\r\n|\n|\r/);
        this.#rest = (lines.pop() ?? "") + all.slice(all.length - held);
        const events = [];
        for (const line of lines) {
            const event = this.#line(line);
            if (event) events.push(event);
        }
        return events;
    }

    /** @param {string} line @returns {ServerEvent | null} */
    #line(line) {
        if (line === "") {
            const event = { event: this.#event || "message", data: this.#data.join("\n"), id: this.id };
            const empty = this.#data.length === 0;
            this.#event = "";
            this.#data = [];
            return empty ? null : event;
        }
        const colon = line.indexOf(":");
        if (colon === 0) return null;
        const field = colon < 0 ? line : line.slice(0, colon);
        let value = colon < 0 ? "" : line.slice(colon + 1);
        if (value.startsWith(" ")) value = value.slice(1);
        if (field === "data") this.#data.push(value);
        else if (field === "event") this.#event = value;
        else if (field === "id" && !value.includes("\0")) this.id = value;
        else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
        return null;
    }
}
