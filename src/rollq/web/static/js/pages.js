// The table of pages: a path, its module, its words, its sign, the key that goes there after `g`.
// A page is a module below `pages/` that exports `open(root, place)`.

export const PAGES = [
  { name: "overview", path: "/", icon: "overview", key: "o", group: "work" },
  { name: "jobs", path: "/jobs", icon: "jobs", key: "j", group: "work" },
  { name: "submit", path: "/submit", icon: "submit", key: "s", group: "work" },
  { name: "login", path: "/login" },
  { name: "job", path: "/jobs/:id", below: "jobs" },
];

export const GROUPS = ["work", "grid", "records"];

/** The module of a page. It is loaded when it is first shown. */
export const load = (page) => import(`./pages/${page.name}.js`);
