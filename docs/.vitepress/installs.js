// Pages show what to install with npm. The site shows the same with other package managers, in tabs.

/** The words of each for: to add packages, to add those of development, to make a project. */
const WORDS = {
  npm: { add: "npm install", dev: "npm install --save-dev", create: "npm create" },
  pnpm: { add: "pnpm add", dev: "pnpm add --save-dev", create: "pnpm create" },
  yarn: { add: "yarn add", dev: "yarn add --dev", create: "yarn create" },
  bun: { add: "bun add", dev: "bun add --dev", create: "bun create" },
};
/** A command without other options: they differ too much. */
const COMMAND =
  /^npm (?:(install)( --save-dev)?|create)((?: (?!-)[^\s&|;#]+)+)((?: -- .*)?)( *#.*)?$/;

/**
 * @param {string} code of a block
 * @returns {Record<string, string> | null} the code for each package manager; null unless it installs, and does nothing else
 */
export function installsOf(code) {
  const commands = code
    .replace(/\s*\\\n\s*/g, " ")
    .trimEnd()
    .split("\n");
  if (!commands.every((command) => COMMAND.test(command))) return null;
  const codes = Object.entries(WORDS).map(([manager, { add, dev, create }]) => {
    const translated = code
      .replace(/^npm install --save-dev/gm, dev)
      .replace(/^npm install/gm, add)
      .replace(/^npm create/gm, create);
    // npm alone keeps options of what it starts from itself by two dashes.
    return [manager, manager === "npm" ? code : translated.replaceAll(" -- ", " ")];
  });
  return /** @type {Record<string, string>} */ (Object.fromEntries(codes));
}

/**
 * Renders blocks that install as a group of tabs, within another group too.
 * @param {import("vitepress").MarkdownRenderer} md
 */
export function installTabs(md) {
  const render = md.renderer.rules.fence;
  if (!render) throw new Error("markdown-it renders no fences");
  md.renderer.rules.fence = (tokens, index, options, env, self) => {
    const token = tokens[index];
    const codes = token && /^sh\b/.test(token.info) ? installsOf(token.content) : null;
    if (!token || !codes) return render(tokens, index, options, env, self);
    const name = `install-${token.map?.[0] ?? index}`;
    const tabs = Object.keys(codes).map((manager, at) => {
      const checked = at === 0 ? " checked" : "";
      const id = `${name}-${manager}`;
      return `<input type="radio" name="${name}" id="${id}"${checked}><label data-title="${manager}" for="${id}">${manager}</label>`;
    });
    const blocks = Object.values(codes).map((content, at) => {
      const info = at === 0 ? "sh active" : "sh";
      const block = /** @type {typeof token} */ (Object.create(token));
      block.info = info;
      block.content = content;
      return render([block], 0, options, env, self);
    });
    const active = / active( |$)/.test(token.info) ? " active" : "";
    return `<div class="installs${active}"><div class="vp-code-group vp-adaptive-theme"><div class="tabs">${tabs.join("")}</div><div class="blocks">\n${blocks.join("\n")}</div></div></div>\n`;
  };
}
