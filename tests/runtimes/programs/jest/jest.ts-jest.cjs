module.exports = {
  transform: {
    "\\.[jt]s$": [
      "ts-jest",
      { tsconfig: { allowJs: true, module: "CommonJS", target: "ES2022", isolatedModules: true } },
    ],
  },
  // These packages are ES modules.
  transformIgnorePatterns: ["/node_modules/(?!(leasehold|@noble/hashes|tinyqueue)/)"],
};
