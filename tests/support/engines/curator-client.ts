/**
 * A client of the shape of Curator's InterProcessMutex, step by step as its recipe goes: another kind
 * of client than ours, that contends for the same lock.
 *
 *   create LOCK/_c_<uuid>-lock-  ephemeral, sequential, parents made when missing
 *   loop: children of LOCK, ordered by what follows the last `lock-`; at index 0 the lock is held;
 *         else get the data of the predecessor, with a watch, and wait until that fires
 *   release: delete the own node
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { promisify } from "node:util";
import { type Client, CreateMode, createClient, Exception, State } from "node-zookeeper-client";

const LOCK_NAME = "lock-";
/** What Curator writes by default: the address of the machine. */
const DATA = Buffer.from("10.0.0.7");

export class CuratorClient {
  private constructor(readonly client: Client) {}

  static async connect(server: string, sessionTimeout = 10_000): Promise<CuratorClient> {
    const client = createClient(server, { sessionTimeout });
    client.connect();
    await once(client, "connected");
    return new CuratorClient(client);
  }

  mutex(path: string): InterProcessMutex {
    return new InterProcessMutex(this.client, path);
  }

  children(path: string): Promise<string[]> {
    return promisify<string[]>((done) => this.client.getChildren(path, done))();
  }

  async data(path: string): Promise<string> {
    return String(await promisify<Buffer>((done) => this.client.getData(path, done))());
  }

  /** Deletes by hand, as an operator with another tool would. */
  remove(path: string): Promise<void> {
    return promisify((done: (error: unknown) => void) => this.client.remove(path, done))();
  }

  async close(): Promise<void> {
    if (this.client.getState() === State.SYNC_CONNECTED) {
      const ended = once(this.client, "disconnected");
      this.client.close();
      await ended;
    } else this.die();
  }

  /** As if its process were gone: nothing comes from it any more, and it does not come back. */
  die(): void {
    // Left alone, it connects again.
    const { connectionManager } = this.client as unknown as {
      connectionManager: { connect(): void; socket?: { destroy(error: Error): void } };
    };
    connectionManager.connect = () => {};
    connectionManager.socket?.destroy(new Error("gone"));
  }
}

export class InterProcessMutex {
  #ourPath: string | undefined;

  constructor(
    readonly client: Client,
    readonly basePath: string,
  ) {}

  get nodeName(): string {
    return this.#ourPath?.slice(this.basePath.length + 1) ?? "";
  }

  /** Resolves when it has the lock. @param onQueued called when another client is ahead of it */
  async acquire(onQueued: () => void = () => {}): Promise<void> {
    this.#ourPath = await this.#createTheLock();
    for (;;) {
      const children = await this.#sortedChildren();
      const index = children.indexOf(this.nodeName);
      if (index < 0) throw new Error(`sequential path not found: ${this.nodeName}`);
      if (index === 0) return;
      const watch = await this.#watchPredecessor(`${this.basePath}/${children[index - 1]}`);
      if (!watch) continue;
      onQueued();
      await watch.fired;
    }
  }

  release(): Promise<void> {
    return promisify((done: (error: unknown) => void) =>
      this.client.remove(this.#ourPath ?? "", done),
    )();
  }

  async #createTheLock(): Promise<string> {
    const path = `${this.basePath}/_c_${randomUUID()}-${LOCK_NAME}`;
    try {
      return await this.#create(path);
    } catch (error) {
      if ((error as Exception).code !== Exception.NO_NODE) throw error;
      await promisify((done) => this.client.mkdirp(this.basePath, DATA, done))();
      return this.#create(path);
    }
  }

  #create(path: string): Promise<string> {
    const { client } = this;
    const mode = CreateMode.EPHEMERAL_SEQUENTIAL;
    return promisify<string>((done) => client.create(path, DATA, mode, done))();
  }

  async #sortedChildren(): Promise<string[]> {
    const order = (name: string) => name.slice(name.lastIndexOf(LOCK_NAME) + LOCK_NAME.length);
    const children = await promisify<string[]>((done) =>
      this.client.getChildren(this.basePath, done),
    )();
    return children.sort((a, b) => order(a).localeCompare(order(b)));
  }

  /** Resolves when the watch is set; with nothing if there is no predecessor any more. */
  async #watchPredecessor(path: string): Promise<{ readonly fired: Promise<void> } | undefined> {
    let fire = () => {};
    const fired = new Promise<void>((done) => {
      fire = done;
    });
    try {
      await promisify((done) => this.client.getData(path, () => fire(), done))();
      return { fired };
    } catch (error) {
      if ((error as Exception).code === Exception.NO_NODE) return undefined;
      throw error;
    }
  }
}
