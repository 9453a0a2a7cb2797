/** What the console and the simulator share. A component that only one of them uses belongs there. */
export { Badge, type Tone } from "./badge.js";
export { Button, IconButton } from "./button.js";
export { classNames } from "./class-names.js";
export { CopyButton } from "./copy-button.js";
export { Dialog } from "./dialog.js";
export { durationText } from "./duration.js";
export { Icon, type IconName } from "./icon.js";
export { Modal } from "./modal.js";
export { PageHead } from "./page-head.js";
export { render } from "./render.js";
export { type Shortcuts, useShortcuts } from "./shortcuts.js";
export { THEMES, ThemeProvider, useTheme } from "./theme.js";
export { Token } from "./token.js";
export { tokenStyle } from "./token-colour.js";
