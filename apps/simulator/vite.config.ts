import { fileURLToPath } from "node:url";
import { appConfig } from "../ui/app-config.js";

const root = fileURLToPath(new URL(".", import.meta.url));

export default appConfig(root, "simulator.html", "assets/simulator");
