// The processes of an overload: a server, and holders beside it.
import { spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Where attackers and floods come from: not the address of the holders, because some limits are of an address. */
export const ATTACKER = "127.0.0.2";

/**
 * @param {readonly string[]} args
 * @param {"inherit" | number} stderr
 */
export function child(args, stderr = "inherit") {
  return spawn(process.execPath, args, { stdio: ["pipe", "pipe", stderr] });
}

export const scriptOf = (/** @type {string} */ name) =>
  fileURLToPath(new URL(name, import.meta.url));

/**
 * Starts holders that renew.
 * @param {string} url of the server, with their key
 * @param {number} holders
 * @returns a function that ends them and says what became of their leases
 */
export async function hold(url, holders) {
  const holding = child([scriptOf("holders.js"), url, String(holders)]);
  await said(holding.stdout, (line) => (line === "holding" ? line : undefined));
  return async () => {
    holding.stdin.end();
    return JSON.parse(await said(holding.stdout, (line) => (line[0] === "{" ? line : undefined)));
  };
}

/**
 * Starts `leasehold serve`, without keys.
 * @param {import("./engines.js").Places} places
 * @param {readonly string[]} options
 */
export async function startServer({ store, control }, options = []) {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-overload-"));
  const cli = fileURLToPath(
    new URL("../../packages/leasehold-server/dist/cli/main.js", import.meta.url),
  );
  // Into a file: a log whose reader is slow has lines left out.
  const log = join(folder, "log");
  const args = [cli, "serve", "--port", "0", "--log-level", "info", ...options];
  args.push("--store", store ?? `pglite:${join(folder, "db")}`);
  if (control !== undefined) args.push("--control", control);
  const server = child(args, openSync(log, "w"));
  const ended = new Promise((resolve) => server.once("close", resolve));
  return {
    url: await urlIn(log),
    async end() {
      server.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** @param {string} log */
async function urlIn(log) {
  for (;;) {
    const [, url] = /listening on (http:\/\/[^",\s]+)/.exec(readFileSync(log, "utf8")) ?? [];
    if (url !== undefined) return url;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/**
 * The first that `find` makes of a line. What comes after is read and dropped.
 * @param {import("node:stream").Readable} stream
 * @param {(line: string) => string | undefined} find
 * @returns {Promise<string>}
 */
export function said(stream, find) {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: stream });
    lines.on("line", (line) => {
      const found = find(line);
      if (found !== undefined) resolve(found);
    });
    lines.once("close", () => reject(new Error("it ended before it said what was waited for")));
  });
}
