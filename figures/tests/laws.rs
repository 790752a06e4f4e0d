//! Laws that every figure keeps, on the least work that shows them all.
//!
//! Everything runs in virtual time on generated traces, so nothing here depends on the machine or
//! on data beside the project.

#![allow(clippy::unwrap_used, reason = "a test")]

use nearhead_figures::{
    Effort, FIGURES, FigureError, Lab, Progress, Report, Row, Silent, Traces, Value,
};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Every figure, once for all tests.
static ALL: LazyLock<Vec<Report>> = LazyLock::new(|| make(&[]));

fn make(names: &[&str]) -> Vec<Report> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut silent = Silent;
    let mut lab = Lab::new(Effort::Tiny, Traces::default(), &mut silent);
    let chosen = nearhead_figures::choose(&names).unwrap();
    chosen.iter().map(|figure| (figure.run)(&mut lab).unwrap()).collect()
}

fn figure(name: &str) -> &'static Report {
    ALL.iter().find(|report| report.name == name).unwrap()
}

fn row(report: &'static Report, case: &str) -> &'static Row {
    let found = report.rows.iter().find(|row| row.case == case);
    found.unwrap_or_else(|| panic!("no row {case:?} in {:?}", report.rows))
}

fn number(value: &Value) -> f64 {
    value.number().unwrap_or_else(|| panic!("{value:?} is no number"))
}

#[test]
fn every_figure_says_what_was_run_and_compares_something() {
    assert_eq!(ALL.len(), FIGURES.len());
    for (report, figure) in ALL.iter().zip(FIGURES) {
        assert_eq!(report.name, figure.name);
        assert!(!report.ran.is_empty() && !report.rows.is_empty(), "{}", report.name);
        for row in &report.rows {
            let measured = [&row.baseline, &row.ours].iter().any(|v| **v != Value::Nothing);
            assert!(measured || row.limit != Value::Nothing, "{}: {row:?}", report.name);
        }
    }
}

#[test]
fn no_bandwidth_is_above_the_physical_limit() {
    let mut seen = 0;
    for row in ALL.iter().flat_map(|report| &report.rows) {
        if !row.case.starts_with("bandwidth") {
            continue;
        }
        let Some(limit) = row.limit.number() else { continue };
        for value in [&row.baseline, &row.ours].into_iter().filter_map(Value::number) {
            assert!(value <= limit, "{row:?}");
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen}");
}

#[test]
fn no_log_makes_more_of_a_mix_than_one_whose_writes_cost_nobody_anything() {
    let mut seen = 0;
    for row in ALL.iter().filter(|report| report.name == "fig6b").flat_map(|report| &report.rows) {
        assert!(number(&row.ours) <= number(&row.limit), "{row:?}");
        seen += 1;
    }
    assert!(seen >= 20, "{seen}");
}

#[test]
fn no_sync_and_no_checkpoint_is_faster_than_the_disk_can_be() {
    for row in ALL.iter().flat_map(|report| &report.rows) {
        if row.case.starts_with("sync,") || row.case.starts_with("checkpoint after") {
            for value in [&row.baseline, &row.ours].into_iter().filter_map(Value::number) {
                assert!(value >= number(&row.limit), "{row:?}");
            }
        }
    }
}

#[test]
fn near_head_logs_beat_every_journal_on_the_bare_disk() {
    for name in ["fig2a", "fig2b"] {
        let report = figure(name);
        let ours = number(&row(report, "bandwidth, manylogs, 320 writes/s").ours);
        let sync = number(&row(report, "sync, manylogs, 320 writes/s").ours);
        for mode in ["ordered", "data", "adaptive"] {
            let bandwidth = row(report, &format!("bandwidth, {mode}, 320 writes/s"));
            let latency = row(report, &format!("sync, {mode}, 320 writes/s"));
            assert!(ours > number(&bandwidth.baseline), "{name}: {ours} {bandwidth:?}");
            assert!(sync < number(&latency.baseline), "{name}: {sync} {latency:?}");
        }
    }
}

#[test]
fn syncs_do_not_wait_behind_eight_outstanding_reads_on_any_drive() {
    let report = figure("fig2a-drives");
    for drive in ["st3146855fc", "constellation-es3-1tb", "exos-x20-20tb"] {
        for method in ["mlb", "nearhead"] {
            let sync = row(report, &format!("sync, {method}, {drive}, 8 outstanding"));
            assert!(number(&sync.ours) < 12.0, "{sync:?}");
            assert!(number(&sync.ours) < number(&sync.baseline), "{sync:?}");
        }
    }
}

#[test]
fn near_head_logs_beat_ordered_journaling_on_the_real_file_system_too() {
    for name in ["fig2a-fs", "fig2b-fs"] {
        let report = figure(name);
        let ours = |mode: &str, what: &str| {
            let case = format!("{what}, {mode}, 320 writes/s");
            number(&row(report, &case).ours)
        };
        assert!(ours("nearhead", "sync") < 20.0, "{name}: {}", ours("nearhead", "sync"));
    }
    let report = figure("fig2a-fs");
    let ours = |mode: &str| number(&row(report, &format!("bandwidth, {mode}, 320 writes/s")).ours);
    let (near, ordered, data) = (ours("nearhead"), ours("ordered"), ours("data"));
    assert!(near > data && data > ordered, "{near} {data} {ordered}");
    // The stand-ins say the same of the same mode.
    for mode in ["manylogs", "nearhead"] {
        let both = row(report, &format!("bandwidth, {mode}, 320 writes/s"));
        assert!((number(&both.baseline) - number(&both.ours)).abs() < 5.0, "{both:?}");
    }
}

#[test]
fn data_journaling_halves_what_a_sequential_writer_gets_and_leaves_a_reader_alone() {
    let of = |figure_name, mode| {
        let case = format!("bandwidth, {mode}, 320 writes/s");
        number(&row(figure(figure_name), &case).baseline)
    };
    assert!(of("fig2b", "data") <= 50.0, "{}", of("fig2b", "data"));
    assert!((of("fig2a", "data") - of("fig2a", "adaptive")).abs() < 1e-9);
}

#[test]
fn the_data_has_as_many_cells_as_columns_everywhere() {
    for report in ALL.iter() {
        for data in &report.data {
            assert!(!data.rows.is_empty(), "{} {}", report.name, data.name);
            for row in &data.rows {
                assert_eq!(row.len(), data.columns.len(), "{} {}", report.name, data.name);
            }
        }
        for drawing in &report.drawings {
            assert!(drawing.svg.starts_with("<svg") && drawing.svg.ends_with("</svg>\n"));
        }
    }
}

#[test]
fn the_points_of_figure_2_have_the_columns_that_others_read() {
    let data = &figure("fig2a").data[0];
    for column in ["method", "writes_per_s_per_disk", "bandwidth_pct", "sync_ms_mean"] {
        assert!(data.columns.iter().any(|found| found == column), "{column}");
    }
}

#[test]
fn the_same_work_gives_the_same_report() {
    for name in ["fig2a", "fig2b-fs", "fig4b", "fig6a", "fig7a", "okeanos-recovery"] {
        let again = make(&[name]);
        assert_eq!(&again[0], figure(name), "{name}");
    }
}

#[test]
fn every_mix_names_its_synthetic_sources() {
    let ran = &figure("fig6b").ran;
    for mix in ["W1", "W2", "W3", "W4", "W5"] {
        assert!(ran.contains(mix), "{ran}");
    }
    assert!(ran.matches("synthetic-").count() >= 25, "{ran}");
}

/// Everything that people read of a report.
fn texts(report: &Report) -> impl Iterator<Item = String> {
    let rows = report.rows.iter().flat_map(Row::cells);
    let data = report.data.iter().flat_map(|data| data.rows.iter().flatten().cloned());
    let words = [report.title.clone(), report.ran.clone()].into_iter();
    let drawn = report.drawings.iter().map(|drawing| drawing.svg.clone());
    words
        .chain(report.differs.iter().cloned())
        .chain(report.findings.iter().cloned())
        .chain(rows)
        .chain(data)
        .chain(drawn)
}

#[test]
fn a_report_made_without_real_traces_names_none_and_calls_none_real() {
    for report in ALL.iter() {
        for text in texts(report) {
            let without = text.replace("synthetic-dtrs", "");
            for real in ["dtrs", "DTRS", "cloudphysics", "msr-cut", "real trace", "real one"] {
                assert!(!without.contains(real), "{}: {real:?} in {text:?}", report.name);
            }
        }
    }
}

#[test]
fn every_figure_with_server_traces_says_that_all_of_them_were_generated() {
    let uses_servers = |report: &&Report| report.ran.contains("synthetic-");
    let told = |report: &Report| {
        report
            .differs
            .iter()
            .any(|text| text.starts_with("None of the ") && text.contains("synthetic"))
    };
    assert!(ALL.iter().filter(uses_servers).count() >= 5);
    for report in ALL.iter().filter(uses_servers) {
        assert!(told(report), "{}: {:?}", report.name, report.differs);
    }
}

#[test]
fn every_checkpoint_beyond_the_papers_time_is_named_and_no_other() {
    let report = figure("fig7a");
    let beyond = report.findings.iter().find(|text| text.starts_with("Beyond the paper's"));
    for row in report.rows.iter().filter(|row| row.paper != Value::Nothing) {
        let name = row.case.strip_prefix("checkpoint after ").unwrap();
        let is_named = beyond.is_some_and(|text| text.contains(name));
        let Value::Range(_, most) = row.paper else { panic!("{row:?}") };
        assert_eq!(is_named, number(&row.ours) > most, "{name}: {:?}", report.findings);
    }
}

#[test]
fn an_unknown_name_is_told_all_known_ones() {
    let error = nearhead_figures::choose(&["fig99".to_owned()]).err().unwrap();
    let told = error.to_string();
    assert!(matches!(error, FigureError::Unknown { .. }) && told.contains("fig99"), "{told}");
    assert!(FIGURES.iter().all(|figure| told.contains(figure.name)), "{told}");
}

#[test]
fn names_are_different_and_chosen_in_the_order_of_the_chapter() {
    let names: BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    assert_eq!(names.len(), FIGURES.len());
    let asked = ["table2".to_owned(), "fig2a".to_owned()];
    let chosen = nearhead_figures::choose(&asked).unwrap();
    let chosen: Vec<&str> = chosen.iter().map(|figure| figure.name).collect();
    assert_eq!(chosen, ["fig2a", "table2"]);
}

#[test]
fn an_experiment_that_several_figures_show_runs_once() {
    struct Count(Vec<String>);
    impl Progress for Count {
        fn begin(&mut self, experiment: &str, _: usize) {
            self.0.push(experiment.to_owned());
        }
        fn step(&mut self, _: &str) {}
        fn end(&mut self) {}
    }
    let mut count = Count(Vec::new());
    let mut lab = Lab::new(Effort::Tiny, Traces::default(), &mut count);
    for name in ["fig6a", "fig6b", "swaps"] {
        let chosen = nearhead_figures::choose(&[name.to_owned()]).unwrap();
        (chosen[0].run)(&mut lab).unwrap();
    }
    assert_eq!(count.0.iter().filter(|name| *name == "fig6").count(), 1, "{:?}", count.0);
}

#[test]
fn the_folder_gets_the_page_and_a_file_for_each_table_and_chart() {
    let folder = std::env::temp_dir().join(format!("nearhead-figures-{}", std::process::id()));
    let page = nearhead_figures::write(&ALL, "nearhead figures --tiny", &folder).unwrap();
    let page = std::fs::read_to_string(page).unwrap();
    for report in ALL.iter() {
        assert!(page.contains(&format!("id=\"{}\"", report.name)), "{}", report.name);
        let csv = std::fs::read_to_string(folder.join(format!("{}.csv", report.name))).unwrap();
        assert!(csv.starts_with("case,unit,paper,goal,baseline,ours,physical limit\n"), "{csv}");
        for data in &report.data {
            assert!(folder.join(format!("{}-{}.csv", report.name, data.name)).exists());
        }
        for drawing in &report.drawings {
            assert!(folder.join(format!("{}-{}.svg", report.name, drawing.name)).exists());
        }
    }
    let links = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!links.contains("http") && !links.contains("src="), "something is fetched");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let file = std::env::temp_dir().join(format!("nearhead-figures-file-{}", std::process::id()));
    std::fs::write(&file, "").unwrap();
    let told = nearhead_figures::prepare(&file).unwrap_err().to_string();
    assert!(told.contains(&*file.to_string_lossy()) && told.contains("--out"), "{told}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn cleaning_in_log_order_stops_a_log_over_an_array_and_leaves_a_chain_with_room_alone() {
    let report = figure("gecko-cleaning");
    let ours = |case: &str| number(&row(report, case).ours);
    let before = ours("log on RAID-0, in log order: clients, before cleaning");
    let full = ours("log on RAID-0, in log order: clients, cleaning and the log full");
    assert!(before / full.max(0.1) > 5.0, "{before} {full}");
    let chain = "chain, to its tail in log order: clients";
    let before = ours(&format!("{chain}, before cleaning"));
    let together = ours(&format!("{chain} and cleaning together, while cleaning"));
    assert!(together > before * 0.9, "{before} {together}");
}

#[test]
fn a_log_disk_gives_a_database_more_transactions_than_group_commit_does() {
    let report = figure("trail-tpcc");
    let ours = |case: &str| number(&row(report, case).ours);
    let per_minute = |system: &str| ours(&format!("transactions a minute, {system}"));
    let (trail, grouped) = (per_minute("trail"), per_minute("plain disks, group commit"));
    assert!(trail > grouped && grouped > per_minute("plain disks"), "{trail} {grouped}");
    let commits = |kb: u32| ours(&format!("group commits of 10,000 transactions, {kb} KB"));
    assert!(commits(4) > 10.0 * commits(100) && commits(100) > commits(1200));
}

#[test]
fn one_random_writer_costs_a_raw_array_far_more_than_a_chain_of_its_drives() {
    let report = figure("gecko-contention");
    let collapse = row(report, "collapse by 1 random writer, chain, 2 sequential");
    assert!(number(&collapse.baseline) > 2.0 * number(&collapse.ours), "{collapse:?}");
}

#[test]
fn of_okeanos_modes_wasteless_is_the_fastest_with_small_files_and_brings_less_to_the_journal() {
    let report = figure("okeanos5a");
    for bytes in [512, 128 << 10] {
        let ours = |what: &str, mode: &str| {
            number(&row(report, &format!("{what}, {mode}, requests of {bytes} bytes")).ours)
        };
        let per_second = |mode| ours("transactions", mode);
        for mode in ["ordered", "data", "selective"] {
            assert!(per_second("wasteless") >= per_second(mode), "{mode}, {bytes}");
        }
        assert!(per_second("data") > per_second("ordered"));
        let journal = |mode| ours("written to the journal", mode);
        assert!(journal("wasteless") < journal("data"), "{bytes}");
    }
    // Whole blocks go in place with selective journaling, so it lies between.
    let per_second = |mode: &str| {
        let case = format!("transactions, {mode}, requests of 131072 bytes");
        number(&row(report, &case).ours)
    };
    assert!(per_second("ordered") < per_second("selective"));
    assert!(per_second("selective") < per_second("data"));
}

#[test]
fn a_log_that_is_flushed_at_each_commit_waits_least_with_wasteless_and_most_with_ordered() {
    let report = figure("okeanos5b");
    for file in ["", ", new files"] {
        let ours = |what: &str, mode: &str| {
            number(&row(report, &format!("{what}, {mode}, Cmt/Disk, 8 instances{file}")).ours)
        };
        let flush = |mode| ours("a flush", mode);
        assert!(flush("wasteless") < flush("data") && flush("data") < flush("selective"));
        assert!(flush("selective") < flush("ordered"), "{file}");
        let journal = |mode| ours("written to the journal", mode);
        assert!(journal("wasteless") < journal("data"), "{file}");
    }
}

#[test]
fn a_recovery_from_wasteless_records_takes_a_fifth_less_than_from_whole_blocks() {
    let report = figure("okeanos-recovery");
    let case = "wasteless, 400 threads, 125 bytes a second, as a journal";
    for what in ["all at home", "files served"] {
        let case = format!("recovery shorter than data journaling's, {what}, {case}");
        let shorter = row(report, &case);
        assert!(number(&shorter.ours) > 20.0, "{shorter:?}");
    }
    let until = |what: &str| number(&row(report, &format!("until {what}, {case}")).ours);
    assert!(until("files are served") < until("all is at home"));
}
