/**
 * The interface to node-zookeeper-client: the parts that the store uses, and the features it disables.
 * Each connection has its own instance of the driver, because a reused one would
 *
 * - keep requests for a later connection, long after their callers have given up;
 * - continue a partial message of the previous connection with data of the next;
 * - wait for responses forever, and throw from its socket on an unknown error;
 * - know no TLS;
 * - treat version 0 in a transaction as "any version".
 *
 * This relies on some driver internals; the tests check them for the allowed versions.
 */

import { isIP } from "node:net";
import { connect } from "node:tls";
import { reasonOf } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import { driverError, driverPart } from "../../store-kit/driver.js";
import type { SecureContext } from "../../store-kit/tls-connections.js";
import { hostAndPort } from "./connection-address.js";

export interface Stat {
  readonly czxid: Buffer;
  readonly mzxid: Buffer;
  readonly ctime: Buffer;
  readonly mtime: Buffer;
  readonly version: number;
  readonly ephemeralOwner: Buffer;
  readonly numChildren: number;
  /** The zxid of the last change of its children. */
  readonly pzxid: Buffer;
}
export interface WatchedEvent {
  readonly type: number;
}
export type Watcher = (event: WatchedEvent) => void;
type Callback<Results extends unknown[]> = (
  error: Error | null | undefined,
  ...results: Results
) => void;

/** The result of one operation of a transaction. */
export interface OpResult {
  readonly path?: string;
  readonly stat?: Stat;
}
export interface DriverTransaction {
  /** The operations in wire format. */
  readonly ops: { version?: number }[];
  create(path: string, data: Buffer, acls: unknown, mode: number): unknown;
  setData(path: string, data: Buffer, version: number): unknown;
  remove(path: string, version: number): unknown;
  commit(callback: Callback<[OpResult[]]>): void;
}
export interface DriverClient {
  connect(): void;
  close(): void;
  addAuthInfo(scheme: string, auth: Buffer): void;
  getSessionId(): Buffer;
  getSessionPassword(): Buffer;
  getSessionTimeout(): number;
  getData(path: string, callback: Callback<[Buffer | undefined, Stat]>): void;
  getData(path: string, watcher: Watcher, callback: Callback<[Buffer | undefined, Stat]>): void;
  getChildren(path: string, callback: Callback<[string[], Stat]>): void;
  getChildren(path: string, watcher: Watcher, callback: Callback<[string[], Stat]>): void;
  exists(path: string, callback: Callback<[Stat | null]>): void;
  setData(path: string, data: Buffer, version: number, callback: Callback<[Stat]>): void;
  remove(path: string, version: number, callback: Callback<[]>): void;
  transaction(): DriverTransaction;
  readonly connectionManager: DriverConnection;
}
/** Driver internals. */
export interface DriverConnection {
  connect(): void;
  onSocketConnected(): void;
  onSocketData(chunk: Buffer): void;
  onSocketDrain(): void;
  onSocketClosed(): void;
  on(event: "state", listener: (state: number) => void): unknown;
  setState(state: number): void;
  /** Set in the event loop turn after connect(). */
  socket?: {
    readonly destroyed: boolean;
    readonly errored: Error | null;
    destroy(error: Error): void;
    unref(): void;
  };
  readonly connectTimeoutHandler?: { unref?(): void } | null;
}

/** The driver's numbers for connection states. */
export const STATES = {
  disconnected: 0,
  connecting: 1,
  connected: 2,
  closed: -2,
  expired: -3,
  authenticationFailed: -4,
} as const;

export const MODES = { persistent: 0, ephemeralSequential: 3 } as const;

/**
 * No response of a ZooKeeper server is longer; text from another kind of server, read as a length, is.
 */
const LONGEST_ANSWER_BYTES = 64 * 2 ** 20;

export interface ClientOptions {
  readonly sessionTimeout: number;
  /** Both together resume that session. */
  readonly sessionId?: Buffer;
  readonly sessionPassword?: Buffer;
  readonly spinDelay: number;
  readonly retries: number;
}
export interface Driver {
  createClient(server: string, options: ClientOptions): DriverClient;
  /** Permissions for everyone, or for the user that creates the znode. */
  readonly ACL: { readonly OPEN_ACL_UNSAFE: unknown; readonly CREATOR_ALL_ACL: unknown };
}

/** @throws STORE_MISCONFIGURED */
export async function loadZooKeeper(): Promise<Driver> {
  let loaded: unknown;
  try {
    loaded = await import("node-zookeeper-client");
  } catch (error) {
    throw driverError("node-zookeeper-client", error);
  }
  const driver = "createClient" in Object(loaded) ? (loaded as Driver) : undefined;
  return driverPart("node-zookeeper-client", driver);
}

/** TLS of a connection. */
export interface Tls {
  /** Null for the certificates that Node trusts. */
  readonly secureContext: SecureContext | null;
}

/** As the driver's own connect(), which has no TLS. */
export function connectByTls(connection: DriverConnection, server: string, tls: Tls): void {
  const { host, port } = hostAndPort(server);
  const { secureContext } = tls;
  connection.setState(STATES.connecting);
  const socket = connect({
    host,
    port,
    ...(!isIP(host) && { servername: host }),
    ...(secureContext && { secureContext }),
  });
  connection.socket = socket;
  socket.setNoDelay();
  socket.on("secureConnect", () => connection.onSocketConnected());
  socket.on("data", (chunk: Buffer) => connection.onSocketData(chunk));
  socket.on("drain", () => connection.onSocketDrain());
  socket.on("close", () => connection.onSocketClosed());
  // The end of the connection, which follows, reports it.
  socket.on("error", () => {});
}

/**
 * The driver receives whole messages, one at a time; a message that it cannot parse ends the
 * connection.
 */
export function readWhole(connection: DriverConnection, cut: (error: Error) => void): void {
  const read = connection.onSocketData.bind(connection);
  let rest: Buffer = Buffer.alloc(0);
  connection.onSocketData = (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= 4 && connection.socket?.destroyed === false) {
      const length = rest.readInt32BE(0);
      if (length < 0 || length > LONGEST_ANSWER_BYTES) {
        const problem = "the server is not a ZooKeeper server: correct host and port in the URL";
        cut(new StoreMisconfiguredError(problem));
        return;
      }
      if (rest.length < length + 4) return;
      const message = rest.subarray(0, length + 4);
      rest = rest.subarray(length + 4);
      try {
        read(message);
      } catch (error) {
        cut(new Error(`the driver cannot parse a response: ${reasonOf(error)}`));
      }
    }
  };
}

/**
 * @throws STORE_MISCONFIGURED if the number is not exact, because tokens must compare correctly
 */
export function exact(long: Buffer): number {
  const value = Number(long.readBigInt64BE());
  if (Number.isSafeInteger(value)) return value;
  throw new StoreMisconfiguredError(
    `zxid ${long.toString("hex")} is too large to be a token: the ensemble has had more than two million leaders`,
  );
}
