/** The tests' own API server as a process, to be killed and stopped: kube-api-process.js PORT JOURNAL */
import { startKubeApi } from "./kube-api.js";

process.on("disconnect", () => process.exit());
const [, , port, journal = ""] = process.argv;
await startKubeApi({ port: Number(port), journal });
console.log("listening");
