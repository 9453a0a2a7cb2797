/** The built command line as real processes, with all that they print. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Child, type Ended } from "./processes.js";

export { endAll, isAlive, stateOf } from "./processes.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));
/** The script of the command line. */
export const MAIN = join(root, "packages/leasehold-server/dist/cli/main.js");

/** Processes run what was built: that must be these sources. */
export function checkBuild(): void {
  checkFresh("packages/leasehold/src", join(root, "packages/leasehold/dist/index.js"));
  checkFresh("packages/leasehold-server/src", MAIN);
}

/** Throws unless `made` is younger than all sources of the folder. */
export function checkFresh(folder: string, made: string): void {
  const built = statSync(made, { throwIfNoEntry: false })?.mtimeMs;
  if (built === undefined) throw new Error(`there is no ${made}: npm run build`);
  const newer = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).find(
    (path) =>
      /(?<!\.test)\.(tsx?|css|html)$/.test(path) &&
      statSync(join(root, folder, path)).mtimeMs > built,
  );
  if (newer !== undefined) throw new Error(`${folder}/${newer} is newer than dist: npm run build`);
}

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Written to stdin, which is then closed. */
  readonly input?: string | Uint8Array;
  readonly cwd?: string;
  /** Another script of the package instead of the command line. */
  readonly script?: string;
}

/** A process that runs `leasehold ...args`. */
export class Cli extends Child {
  constructor(args: readonly string[], options: CliOptions = {}) {
    const { env = {}, input = "", cwd = root, script = MAIN } = options;
    super(process.execPath, [script, ...args], {
      input,
      cwd,
      env: { ...ownEnvironment(), ...env },
    });
  }
}

/** Runs to its end. */
export function leasehold(args: readonly string[], options: CliOptions = {}): Promise<Ended> {
  return new Cli(args, options).ended;
}

export interface Serving {
  readonly cli: Cli;
  readonly url: string;
}

/** `leasehold serve` on a free port, when it listens. */
export async function serve(store = "memory:test", args: readonly string[] = []): Promise<Serving> {
  const cli = new Cli(["serve", "--port", "0", "--store", store, ...args]);
  const url = await cli.until(({ err }) =>
    err.map((line) => (JSON.parse(line) as { url?: string }).url).find(Boolean),
  );
  return { cli, url };
}

/** Without what would change the defaults that are tested. */
export function ownEnvironment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(LEASEHOLD_|PORT$|NODE_OPTIONS$|FORCE_COLOR$|VITEST)/.test(name),
  );
  return Object.fromEntries(own);
}
