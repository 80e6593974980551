"""Why a launch may stop scaling, a file for each cause."""
