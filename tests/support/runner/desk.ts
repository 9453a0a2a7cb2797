/**
 * Something dear that a whole test run shares, made when the first test asks for it: unit tests alone
 * never pay for it. The run's own process makes it; the workers ask for it over a local socket.
 */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { text } from "node:stream/consumers";

export interface Desk {
  readonly port: number;
  close(): void;
}

/** Answers every connection with the result of `make`, which is called at most once. */
export async function openDesk(make: () => Promise<string>): Promise<Desk> {
  let made: Promise<string> | undefined;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    made ??= make();
    made.then(
      (value) => socket.end(JSON.stringify({ value })),
      (error: Error) => socket.end(JSON.stringify({ error: error.message })),
    );
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { port: address.port, close: () => server.close() };
}

/** @param what for the message of the error */
export async function askDesk(port: number, what: string): Promise<string> {
  const answer = await text(connect(port, "127.0.0.1"));
  const { value, error } = JSON.parse(answer) as { value?: string; error?: string };
  if (value === undefined) throw new Error(`no ${what}: ${error}`);
  return value;
}
