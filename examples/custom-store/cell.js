/**
 * One value in a folder, changed by compare-and-swap, for all processes of one machine.
 *
 *   folder/41   folder/42   folder/43      each version is a file; the largest number is the value
 *
 * To change it: read version n, write the new value to a file beside it, and link(2) that file as
 * n + 1. The link is the swap: it exists whole or not at all, and only one of several succeeds. A killed
 * process leaves at most an unused file, and no lock to break.
 *
 * Failure case. Old versions are deleted, smallest first. A process that was paused after reading n may
 * find n + 1 free again, because that version was deleted long ago. Its link is then an old version that
 * no process reads. So it checks that version n still exists, because n is deleted before n + 1. If n
 * exists, the swap counts. Otherwise the result is unknown, and swap() says so.
 */
import { randomUUID } from "node:crypto";
import { link, mkdir, readdir, readFile, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A process still learns the result of its change if at most this many others came after it. */
const KEPT_VERSIONS = 16;
/** Files of killed processes are deleted after this time. */
const LEFTOVER_MS = 60_000;

/**
 * @template T
 * @typedef {object} Read
 * @property {number} version
 * @property {string} text
 * @property {T} value
 */

/** @template T */
export class Cell {
  /** @param {string} folder */
  constructor(folder) {
    this.folder = folder;
  }

  /**
   * Creates the folder if it does not exist.
   * @param {T} initial
   */
  async open(initial) {
    await mkdir(this.folder, { recursive: true });
    if ((await this.#versions()).length === 0) await this.#publish(0, initial);
  }

  /** @returns {Promise<Read<T>>} */
  async read() {
    for (;;) {
      const version = (await this.#versions()).at(-1) ?? 0;
      const text = await this.#textOf(version);
      // Null: the version was just deleted, so there are newer ones.
      if (text !== null) return { version, text, value: JSON.parse(text).value };
    }
  }

  /**
   * Changes the value unless another process has changed it since it was read.
   * @param {Read<T>} read
   * @param {T} value
   * @returns {Promise<"won" | "lost" | "unknown">}
   */
  async swap({ version, text }, value) {
    if (!(await this.#publish(version + 1, value))) return "lost";
    const won = (await this.#textOf(version)) === text;
    // The new value is in place. A failure to delete old versions is no failure of the swap.
    await this.#clear(version + 1 - KEPT_VERSIONS).catch(() => {});
    return won ? "won" : "unknown";
  }

  /**
   * @param {number} version
   * @param {T} value
   */
  async #publish(version, value) {
    // The id makes each file's text its own, also where the same value comes again.
    const id = randomUUID();
    const draft = join(this.folder, `draft-${id}`);
    try {
      await writeFile(draft, JSON.stringify({ id, value }));
      await link(draft, join(this.folder, String(version)));
      return true;
    } catch (error) {
      if (codeOf(error) === "EEXIST") return false;
      throw error;
    } finally {
      await unlink(draft).catch(() => {});
    }
  }

  /** Smallest first. */
  async #versions() {
    const names = await readdir(this.folder);
    const numbers = names.filter((name) => /^\d+$/.test(name)).map(Number);
    return numbers.sort((a, b) => a - b);
  }

  /** @param {number} version */
  #textOf(version) {
    return readFile(join(this.folder, String(version)), "utf8").catch((error) => {
      if (codeOf(error) === "ENOENT") return null;
      throw error;
    });
  }

  /** @param {number} before */
  async #clear(before) {
    for (const version of await this.#versions()) {
      // One after the other: no version is gone before a smaller one.
      if (version < before) await unlink(join(this.folder, String(version))).catch(unlessGone);
    }
    for (const name of await readdir(this.folder)) {
      if (!name.startsWith("draft-")) continue;
      const path = join(this.folder, name);
      const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
      if (Date.now() - mtimeMs > LEFTOVER_MS) await unlink(path).catch(unlessGone);
    }
  }
}

/** @param {unknown} error */
function unlessGone(error) {
  if (codeOf(error) !== "ENOENT") throw error;
}

/** @param {unknown} error */
function codeOf(error) {
  return /** @type {NodeJS.ErrnoException} */ (error).code;
}
