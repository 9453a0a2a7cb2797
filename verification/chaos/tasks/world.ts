/** Everything that takes part in the chaos test, from its start to its end. */
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Random } from "leasehold";
import { freePort } from "../../../tests/support/engines/free-port.js";
import { Client } from "./clients.js";
import { type CliProcess, ServerProcess, SupervisedWorker } from "./processes.js";
import { type Proxy, startProxy } from "./proxy.js";
import { type Recorder, startRecorder } from "./recorder.js";

export interface WorldSettings {
  readonly databaseUrl: string;
  readonly servers: number;
  /** Spread evenly over the servers. */
  readonly workers: number;
  readonly concurrency: number;
  readonly ttlMs: number;
  /** Of the answers that say yes, how many are lost on the way. */
  readonly dropRatio: number;
  /** Decides which. */
  readonly random: Random;
  /** By then everything is over, whatever happened. */
  readonly deadline: AbortSignal;
}

export class World {
  readonly servers: ServerProcess[] = [];
  readonly proxies: Proxy[] = [];
  readonly workers: SupervisedWorker[] = [];
  readonly #closing = new AbortController();
  #recorder: Recorder | undefined;

  constructor(readonly settings: WorldSettings) {}

  get recorder(): Recorder {
    return this.#recorder!;
  }

  /** Reaches any server, through its proxy. */
  get client(): Client {
    const urls = this.proxies.map(({ url }) => url);
    return new Client(urls, AbortSignal.any([this.settings.deadline, this.#closing.signal]));
  }

  /** Those that run and those that ran. */
  get processes(): CliProcess[] {
    return [...this.servers, ...this.workers].flatMap(({ incarnations }) => incarnations);
  }

  async start(): Promise<void> {
    const { databaseUrl, dropRatio, random, ttlMs, concurrency } = this.settings;
    this.#recorder = await startRecorder();
    for (let count = 1; count <= this.settings.servers; count += 1) {
      this.servers.push(new ServerProcess(`s${count}`, await freePort(), databaseUrl));
    }
    // All at once, on a database without a schema.
    await Promise.all(this.servers.map((server) => server.start()));
    for (const { port } of this.servers) {
      this.proxies.push(await startProxy(port, random, dropRatio));
    }
    for (let count = 1; count <= this.settings.workers; count += 1) {
      const server = this.proxies[count % this.proxies.length]!.url;
      const settings = { ttlMs, concurrency, recorder: this.recorder.url, server };
      this.workers.push(new SupervisedWorker(`w${count}`, settings));
    }
    await Promise.all(this.workers.map((worker) => worker.current.said('"working"')));
  }

  /** Ends all processes, workers first; how each of them ended. */
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<string[]> {
    const workers = await Promise.all(this.workers.map((worker) => worker.end(signal)));
    const servers = await Promise.all(this.servers.map((server) => server.current?.end(signal)));
    return [...workers, ...servers];
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.end("SIGKILL");
    await Promise.all(this.proxies.map((proxy) => proxy.close()));
    await this.#recorder?.close();
  }

  /** Writes the output of the processes to files, for finding the cause of a failure. @returns the folder */
  async keepLogs(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "leasehold-chaos-"));
    for (const { name, lines } of this.processes) {
      await writeFile(join(folder, `${name}.log`), `${lines.join("\n")}\n`);
    }
    const sayings = this.proxies.flatMap((proxy) => proxy.sayings);
    await writeFile(join(folder, "sayings.json"), JSON.stringify(sayings, null, 1));
    return folder;
  }
}
