module.exports = {
  transform: {
    "\\.c?js$": [
      "babel-jest",
      { presets: [["@babel/preset-env", { targets: { node: "current" } }]] },
    ],
  },
  // These packages are ES modules.
  transformIgnorePatterns: ["/node_modules/(?!(leasehold|@noble/hashes|tinyqueue)/)"],
};
