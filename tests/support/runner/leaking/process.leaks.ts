import { spawn } from "node:child_process";
import { it } from "vitest";

// Ends with this process, which ends with the run.
it("passes", () => {
  const read = "process.stdin.resume()";
  spawn(process.execPath, ["-e", read], { stdio: ["pipe", "ignore", "ignore"] });
});
