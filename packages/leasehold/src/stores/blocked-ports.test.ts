/** Stores that connect by fetch refuse its blocked ports. Others connect to them. */
import { expect, test } from "vitest";
import { systemEnv } from "../env/index.js";
import { connect } from "../index.js";
import { reachServers } from "./http/connection-node.js";

test.each([
  ["http://127.0.0.1:6000", 4040],
  ["consul://127.0.0.1:10080", 8500],
])("connect(%j) names the port, and is not to be tried again", async (url, usual) => {
  const error: unknown = await connect(url).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "INVALID_OPTION", retryable: false });
  expect((error as Error).message).toMatch(/port (6000|10080) is blocked by fetch.*choose/);
  expect((error as Error).message).not.toContain("try again");
  expect((error as Error).message).toMatch(new RegExp(`such as ${usual}$`));
});

test("what else is read from servers is refused alike", async () => {
  await expect(reachServers("http://127.0.0.1:6000", systemEnv)).rejects.toThrow("port 6000");
});
