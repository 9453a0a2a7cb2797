import { Child } from "./processes.js";

// Starts a process that takes no notice of anything, stops it, says its pid, and stays.
const child = new Child("sleep", ["1000"]);
await child.stop();
console.log(child.pid);
setInterval(() => {}, 60_000);
