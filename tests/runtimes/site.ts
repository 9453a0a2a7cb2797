/** What the rows share: projects with the packages installed, servers, and processes that end with the run. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ownEnvironment } from "../support/processes/cli.js";
import { Child } from "../support/processes/processes.js";
import { createProject } from "./project.js";

/** Where `npm ci --prefix tests/runtimes` installs. */
export const MODULES = fileURLToPath(new URL("./node_modules", import.meta.url));

export const notInstalled = existsSync(MODULES)
  ? null
  : "no runtimes: npm ci --ignore-scripts --prefix tests/runtimes";

export interface Servers {
  /** The URL of an empty database. */
  postgres(): Promise<string>;
  redis(): Promise<string>;
}

export class Site {
  readonly folder: string;
  /** A project with the library alone: no server, and no driver of an engine. */
  readonly bare: () => Promise<string>;
  /** A project with both packages and drivers. */
  readonly full: () => Promise<string>;
  /** The URL of a Leasehold server, which runs on this Node. */
  readonly server: () => Promise<string>;
  readonly postgres: () => Promise<string>;
  readonly redis: () => Promise<string>;

  constructor(folder: string, servers: Servers) {
    this.folder = folder;
    this.bare = once(() => createProject(join(folder, "bare"), ["leasehold"]));
    this.full = once(() =>
      createProject(join(folder, "full"), ["leasehold", "leasehold-server"], ["ioredis"]),
    );
    this.postgres = once(() => servers.postgres());
    this.redis = once(() => servers.redis());
    this.server = once(async () => {
      const command = join(await this.full(), "node_modules/.bin/leasehold");
      const args = [command, "serve", "--port", "0", "--store", "memory:runtimes"];
      const child = new Child(process.execPath, args, { env: ownEnvironment() });
      return child.until(({ err }) =>
        err.map((line) => (JSON.parse(line) as { url?: string }).url).find(Boolean),
      );
    });
  }
}

function once<Made>(make: () => Promise<Made>): () => Promise<Made> {
  let made: Promise<Made> | undefined;
  return () => (made ??= make());
}
