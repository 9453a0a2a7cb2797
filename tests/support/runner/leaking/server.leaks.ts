import { once } from "node:events";
import { createServer } from "node:http";
import { it } from "vitest";

it("passes", async () => {
  const server = createServer().listen(0, "127.0.0.1").unref();
  await once(server, "listening");
});
