import { fileURLToPath } from "node:url";

export default {
  // Loaded by Node as they are. A bundle would have a copy of its own for each route.
  serverExternalPackages: ["leasehold", "pg"],
  // Of this repository, where `leasehold` is linked. An application needs no such line.
  turbopack: { root: fileURLToPath(new URL("../..", import.meta.url)) },
};
