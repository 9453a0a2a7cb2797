// Tells whether the server of this container is alive: exits with 0 if it answers. Without a shell or curl.
import { get } from "node:http";
import { get as getByTls } from "node:https";

const options = { port: process.env["PORT"] ?? 4040, path: "/healthz", timeout: 2_000 };
// The certificate is for the names that clients use, and this connection does not leave the container.
const asking = process.env["LEASEHOLD_TLS_CERT"]
  ? getByTls({ ...options, host: "127.0.0.1", rejectUnauthorized: false })
  : get({ ...options, host: "127.0.0.1" });
asking.on("response", ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1));
asking.on("timeout", () => process.exit(1));
asking.on("error", () => process.exit(1));
