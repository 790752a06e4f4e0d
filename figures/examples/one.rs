//! Makes figures and prints them, for whoever works on one: `one NAME EFFORT`.

use nearhead_figures::{Effort, Lab, Progress, Traces};

struct Loud;
impl Progress for Loud {
    fn begin(&mut self, what: &str, _: usize) {
        eprintln!("{what}");
    }
    fn step(&mut self, what: &str) {
        eprintln!("  {what}");
    }
    fn end(&mut self) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let effort = match args.next().as_deref() {
        Some("full") => Effort::Full,
        Some("quick") => Effort::Quick,
        _ => Effort::Tiny,
    };
    let names: Vec<String> = args.collect();
    let mut loud = Loud;
    let mut lab = Lab::new(effort, Traces::default(), &mut loud);
    for figure in nearhead_figures::choose(&names)? {
        let report = (figure.run)(&mut lab)?;
        print!("{}", nearhead_figures::table(&report));
        for data in &report.data {
            println!("{}: {}", data.name, data.columns.join("\t"));
            for row in &data.rows {
                println!("  {}", row.join("\t"));
            }
        }
    }
    Ok(())
}
