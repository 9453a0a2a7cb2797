/**
 * Ends another client's ZooKeeper session, although that takes the session's password. The server derives
 * the password from the session's id (SessionTrackerImpl and ZooKeeperServer.generatePasswd:
 * java.util.Random, seeded with the id and a constant), so it can be computed here. It protects no session.
 *
 *   connect request: length, protocol 0, last zxid 0, timeout, session id, password
 *   close request:   length, xid, type -11
 */
import { connect } from "node:net";

const SECRET = 0xb3415c00n;
const PASSWORD_BYTES = 16;
const CLOSE_SESSION = -11;
const WAIT_MS = 3_000;

/** Of those who have ephemeral nodes, as the leader knows them. */
export async function sessionsOf(port: number): Promise<bigint[]> {
  const said = await talk(port, Buffer.from("dump"));
  const [, ephemerals = ""] = said.toString().split("Sessions with Ephemerals");
  return [...ephemerals.matchAll(/^0x([0-9a-f]+):$/gm)].map(([, id]) => BigInt(`0x${id}`));
}

/** How many leaders there have been, as a server has heard; empty while it does not serve. */
export async function epochOf(port: number): Promise<string> {
  const said = await talk(port, Buffer.from("srvr"));
  return /^Zxid: 0x(\w*)\w{8}$/m.exec(said.toString())?.[1] ?? "";
}

export async function endSession(port: number, session: bigint): Promise<void> {
  const body = Buffer.alloc(44 + 1);
  body.writeInt32BE(0, 0);
  body.writeBigInt64BE(0n, 4);
  body.writeInt32BE(10_000, 12);
  body.writeBigInt64BE(BigInt.asIntN(64, session), 16);
  body.writeInt32BE(PASSWORD_BYTES, 24);
  passwordOf(session).copy(body, 28);
  const close = Buffer.alloc(8);
  close.writeInt32BE(1, 0);
  close.writeInt32BE(CLOSE_SESSION, 4);
  await talk(port, Buffer.concat([framed(body), framed(close)]));
}

/** As java.util.Random.nextBytes(): 48 bits of state, 32 of which are used at a time, lowest byte first. */
function passwordOf(session: bigint): Buffer {
  const mask = (1n << 48n) - 1n;
  let state = (BigInt.asIntN(64, session ^ SECRET) ^ 0x5deece66dn) & mask;
  const password = Buffer.alloc(PASSWORD_BYTES);
  for (let at = 0; at < PASSWORD_BYTES; at += 4) {
    state = (state * 0x5deece66dn + 0xbn) & mask;
    password.writeInt32LE(Number(BigInt.asIntN(32, state >> 16n)), at);
  }
  return password;
}

function framed(body: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length, 0);
  return Buffer.concat([length, body]);
}

/** Sends a request and resolves to all that the server answers before it closes the connection. */
function talk(port: number, what: Buffer): Promise<Buffer> {
  return new Promise((resolve) => {
    const heard: Buffer[] = [];
    const socket = connect(port, "127.0.0.1", () => socket.write(what));
    socket.on("data", (chunk: Buffer) => heard.push(chunk));
    socket.setTimeout(WAIT_MS, () => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", () => resolve(Buffer.concat(heard)));
  });
}
