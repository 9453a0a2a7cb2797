const { connect } = require("leasehold");

test("runs under a lease", async () => {
  const leasehold = await connect("memory:");
  expect(await leasehold.run("billing", (lease) => lease.checkAlive())).toBe(true);
  await leasehold.close();
});

test("names the package of a missing driver", async () => {
  const expected =
    "the package node-zookeeper-client is missing: npm install node-zookeeper-client";
  await expect(connect("zookeeper://localhost")).rejects.toThrow(expected);
});
