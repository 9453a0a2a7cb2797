const { createDefaultEsmPreset } = require("ts-jest");

module.exports = {
  ...createDefaultEsmPreset({
    tsconfig: { module: "NodeNext", target: "ES2022", isolatedModules: true },
  }),
};
