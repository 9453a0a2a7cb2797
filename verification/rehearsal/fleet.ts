/** The services of a compose file as processes of this machine, each with a loopback address of its own. */
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { type PostgresServer, startPostgres } from "../../tests/support/engines/postgres-engine.js";
import { Child, endAll, temporaryFolder } from "../../tests/support/processes/processes.js";
import { inOrder, localized, type Mount, type Service, servicesOf } from "./compose.js";

const SERVER = fileURLToPath(new URL("../../packages/leasehold-server", import.meta.url));
/** Where the image has it. */
const IN_IMAGE = { from: SERVER, to: "/app/node_modules/leasehold-server" };
/** Of 127.0.0.0/8, all of which is this machine. */
const NETWORK = "127.0.77";
const AGAIN_MS = 500;
/** For a service that ends by itself. */
const JOB_MS = 60_000;

export class Fleet {
  readonly services: readonly Service[];
  /** Those for whose image there is no program here. */
  readonly left: readonly Service[];
  readonly #folder: string;
  readonly #addresses = new Map<string, string>();
  readonly #processes = new Map<string, Child>();
  #database: PostgresServer | undefined;

  private constructor(services: readonly Service[], folder: string) {
    const isKnown = ({ image }: Service) => /^(leasehold$|postgres:|prom\/prometheus:)/.test(image);
    this.services = inOrder(services.filter(isKnown));
    this.left = services.filter((service) => !isKnown(service));
    this.#folder = folder;
    for (const [index, { name }] of services.entries()) {
      this.#addresses.set(name, `${NETWORK}.${index + 1}`);
    }
  }

  /** @param file a compose file; nothing runs yet */
  static async of(file: string): Promise<Fleet> {
    const folder = await temporaryFolder();
    const services = servicesOf(await readFile(file, "utf8"), file, folder);
    const fleet = new Fleet(services, folder);
    await mkdir(join(folder, "bin"));
    const program = join(folder, "bin", "leasehold");
    await writeFile(
      program,
      `#!/bin/sh\nexec "${process.execPath}" "${SERVER}/dist/cli/main.js" "$@"\n`,
    );
    await chmod(program, 0o755);
    for (const { from } of services.flatMap(({ mounts }) => mounts)) {
      if (from.startsWith(folder)) await mkdir(from, { recursive: true });
    }
    return fleet;
  }

  addressOf(name: string): string {
    return this.#addresses.get(name) ?? "";
  }

  processOf(name: string): Child {
    const found = this.#processes.get(name);
    if (!found) throw new Error(`${name} does not run`);
    return found;
  }

  /** Starts a service again that has ended, or begins it. Resolves when others may depend on it. */
  async start(service: Service): Promise<void> {
    if (service.image.startsWith("postgres:")) return this.#startDatabase(service);
    const untilMs = performance.now() + JOB_MS;
    for (;;) {
      const child = await this.#run(service);
      this.#processes.set(service.name, child);
      if (!service.isJob) return;
      const { code, stderr } = await child.ended;
      if (code === 0) return;
      // As `restart: on-failure` does, which has no end.
      if (performance.now() > untilMs)
        throw new Error(`${service.name} exits with ${code}: ${stderr}`);
      await delay(AGAIN_MS);
    }
  }

  /** As `docker compose run --rm SERVICE COMMAND`. @returns what it prints */
  async run(name: string, ...command: string[]): Promise<string> {
    const service = this.services.find((one) => one.name === name);
    if (!service) throw new Error(`there is no ${name}`);
    const child = await this.#run({ ...service, command, hasEntrypoint: false });
    const { code, stdout, stderr } = await child.ended;
    if (code !== 0) throw new Error(`${command.join(" ")} exits with ${code}: ${stderr}`);
    return stdout;
  }

  async end(): Promise<void> {
    await this.#database?.remove();
    await endAll();
  }

  async #startDatabase({ name, environment }: Service): Promise<void> {
    const { POSTGRES_USER: user, POSTGRES_PASSWORD: password, POSTGRES_DB: database } = environment;
    this.#database = await startPostgres();
    this.#addresses.set(name, `127.0.0.1:${this.#database.port}`);
    const admin = new pg.Client({ connectionString: this.#database.url });
    await admin.connect();
    await admin.query(`CREATE ROLE ${user} LOGIN PASSWORD '${password}'`);
    await admin.query(`CREATE DATABASE ${database} OWNER ${user}`);
    await admin.end();
  }

  async #run(service: Service): Promise<Child> {
    const own = this.addressOf(service.name);
    const mounts = [IN_IMAGE, ...(await this.#copies(service, own))];
    const here = (text: string) => localized(text, own, { addresses: this.#addresses, mounts });
    const command = service.command.map(here);
    const environment = Object.entries(service.environment).map(([key, value]) => [
      key,
      here(value),
    ]);
    const path = `${join(this.#folder, "bin")}:${process.env["PATH"]}`;
    const env = { ...process.env, PATH: path, ...Object.fromEntries(environment) };
    const program = service.image === "leasehold" ? "leasehold" : "prometheus";
    const [first = "", ...rest] = service.hasEntrypoint ? [program, ...command] : command;
    return new Child(first, rest, { env, cwd: this.#folder });
  }

  /** Files that are mounted name other services and other paths, so the service gets copies of its own. */
  async #copies({ name, mounts }: Service, own: string): Promise<Mount[]> {
    const places = await Promise.all(
      mounts.map(async ({ from, to }) => {
        const isFile = (await stat(from)).isFile();
        const copy = isFile ? join(this.#folder, name + to.replaceAll("/", "-")) : from;
        return { original: from, from: copy, to };
      }),
    );
    for (const { original, from } of places) {
      if (from === original) continue;
      const text = await readFile(original, "utf8");
      await writeFile(from, localized(text, own, { addresses: this.#addresses, mounts: places }));
    }
    return places;
  }
}
