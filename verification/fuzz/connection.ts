/** One raw case over one connection, and what came back. */
import type { ClientRequest } from "node:http";
import { connect, type Socket } from "node:net";
import type { FuzzAnswer } from "./judge.js";
import type { RawCase } from "./raw.js";
import { mediaTypeOf } from "./server.js";

/**
 * A server that neither answers nor hangs up: it takes up to 10 s to end those who keep it waiting for
 * a head, and cases that leave it so are cut by us.
 */
const PATIENCE_MS = 20_000;

/**
 * For sockets of a client that keeps connections. Between two requests such a socket has no error handler,
 * so a reset would end this process.
 */
export function bearResets(socket: Socket): void {
  socket.off("error", ignore).on("error", ignore);
}
function ignore(): void {}

/**
 * Whether a server may have closed an idle kept connection just when this request was sent on it. Any
 * client then retries.
 */
export function wasClosedMeanwhile(asking: ClientRequest, error: Error): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return asking.reusedSocket && (code === "ECONNRESET" || code === "EPIPE");
}

export interface Exchange {
  readonly answers: readonly FuzzAnswer[];
  /** What went wrong with the exchange itself. */
  readonly faults: readonly string[];
}

export function exchange(port: number, { pieces, end }: RawCase): Promise<Exchange> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    const received: Buffer[] = [];
    let connected = false;
    let late = false;
    const giveUp = setTimeout(() => {
      late = true;
      socket.destroy();
    }, PATIENCE_MS);
    const rest = [...pieces];
    const writeNext = () => {
      const piece = rest.shift();
      // Each in a packet of its own, as far as that can be had.
      if (piece) socket.write(piece, () => setImmediate(writeNext));
      else if (end === "abort") socket.destroy();
      else if (end === "close") socket.end();
    };
    socket.once("connect", () => {
      connected = true;
      writeNext();
    });
    socket.on("data", (chunk) => {
      received.push(chunk);
      if (end === "answer" && parse(Buffer.concat(received)).answers.length > 0) socket.destroy();
    });
    // The server may reset what it does not want.
    socket.on("error", ignore);
    socket.once("close", () => {
      clearTimeout(giveUp);
      const { answers, fault } = parse(Buffer.concat(received));
      const faults = [
        ...(connected ? [] : ["it does not accept connections"]),
        ...(late ? [`no end after ${PATIENCE_MS} ms`] : []),
        ...(fault ? [fault] : []),
      ];
      resolve({ answers, faults });
    });
  });
}

/** The answers in what a server has sent; one that is not all there is left out. */
function parse(bytes: Buffer): { answers: FuzzAnswer[]; fault?: string } {
  const answers: FuzzAnswer[] = [];
  let rest = bytes;
  while (rest.length > 0) {
    const headEnd = rest.indexOf("\r\n\r\n");
    if (headEnd < 0) break;
    const [first = "", ...lines] = rest.toString("latin1", 0, headEnd).split("\r\n");
    const [, text] = /^HTTP\/1\.1 (\d{3}) /.exec(first) ?? [];
    if (text === undefined) return { answers, fault: `no answer of HTTP: ${first.slice(0, 100)}` };
    const fields = new Map(
      lines.map((line) => {
        const [name = "", ...value] = line.split(":");
        return [name.toLowerCase(), value.join(":").trim()] as const;
      }),
    );
    const status = Number(text);
    rest = rest.subarray(headEnd + 4);
    if (status < 200) continue;
    const mediaType = mediaTypeOf(fields.get("content-type"));
    const length = fields.get("content-length");
    if (fields.get("transfer-encoding") === "chunked") {
      // Streams of events end with the connection; all else of ours says its length.
      answers.push({ status, mediaType, text: "" });
      break;
    }
    const size = status === 204 ? 0 : Number(length ?? rest.length);
    if (rest.length < size) break;
    answers.push({ status, mediaType, text: rest.toString("utf8", 0, size) });
    rest = rest.subarray(size);
  }
  return { answers };
}
